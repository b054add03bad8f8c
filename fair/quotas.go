package fair

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// quotaSet is the quotas that hold together, and what a question under them needs.
type quotaSet struct {
	quotas  []engine.Quota
	windows []window
	most    int // permits that fit every window

	head   string // what a state of these windows begins with; see lua/fair/head.lua
	words  string // the windows, and those of units, as lua/fair/narrow.lua has them
	all    string // the windows with those that these imply, as in a head; "-" if there are none
	layout []any  // of the arguments of every question: where the header ends, the windows

	units   []unitSet
	unitsOf []engine.Unit // the same as they were given or stored

	text string // as they are stored, "" if they were given
}

// A header is so many bytes, and so many more for each window: see doc.go.
const (
	headerBytes = 191
	windowBytes = 22
)

// notStored stands in the head of those who do not look for stored quotas, in
// place of the eight letters that tell one stored text from another.
const notStored = "--------"

// newQuotaSet returns an error that matches [engine.ErrUnsupported] for quotas
// that cannot be held. None are quotas as well.
func newQuotaSet(
	quotas []engine.Quota, units []engine.Unit, guard time.Duration, stored string,
) (*quotaSet, error) {
	all, err := allWindowsOf(quotas, guard)
	if err != nil {
		return nil, err
	}
	windows := binding(all)
	t := &quotaSet{quotas: quotas, windows: windows, most: most(windows), all: "-"}
	if len(all) > len(windows) {
		t.all = word(all)
	}
	t.unitsOf = units
	if t.units, err = unitSetsOf(units, guard); err != nil {
		return nil, err
	}
	t.words = ":" + word(windows)
	for i, u := range t.units {
		t.words += ";" + u.name + ":" + word(u.windows)
		if len(windows) > 0 { // else nobody knows
			t.units[i].worth = rate(windows) / rate(t.units[i].windows)
		}
	}
	end := 0
	if len(windows) > 0 {
		t.head = "fair5 " + word(windows) + " " + stored + "\n"
		end = len(t.head) + headerBytes + windowBytes*len(windows)
	}
	t.layout = append(t.layout, max(0, end-1), len(windows))
	t.layout = appendWindows(t.layout, windows)
	return t, nil
}

// storedQuotaSet reads a stored text.
func (f *fair) storedQuotaSet(text string) (*quotaSet, error) {
	quotas, units, err := quotatext.ParseAll(text)
	if err != nil {
		return nil, err
	}
	return f.quotaSetOf(quotas, units, text)
}

// quotaSetOf takes quotas and their text; without any, those that were given.
// Units that the text does not name stay as they were given.
func (f *fair) quotaSetOf(quotas []engine.Quota, units []engine.Unit, text string) (*quotaSet, error) {
	if len(quotas) == 0 {
		quotas = f.quotas
	}
	units = slices.Clone(units)
	for _, given := range f.quotaSet.unitsOf {
		i := slices.IndexFunc(units, func(u engine.Unit) bool { return u.Name == given.Name })
		if i < 0 {
			units = append(units, given)
		} else {
			units[i].Guard = given.Guard // each limiter's own
		}
	}
	slices.SortFunc(units, func(a, b engine.Unit) int { return strings.Compare(a.Name, b.Name) })
	t, err := newQuotaSet(quotas, units, f.guard, word36(hash(text), len(notStored)))
	if err == nil {
		t.text = text
	}
	return t, err
}

// fits returns the error that a request gets, or nil.
func (t *quotaSet) fits(n int, amounts engine.Amounts) error {
	if len(t.windows) == 0 {
		return errNotGiven
	}
	if n > t.most {
		return fmt.Errorf("%w: %d asked for, at most %d fit", engine.ErrExceedsQuota, n, t.most)
	}
	return t.fitsUnits(amounts)
}

// fitting returns those of the requests that fit.
func (t *quotaSet) fitting(requests []engine.Request) []engine.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r engine.Request) bool { return t.fits(r.N, r.Amounts) != nil })
}

// refuse puts the answers to the fitting ones and refusals of the others in the
// order of the requests, up to the first one without an answer.
func (t *quotaSet) refuse(requests []engine.Request, answers []engine.Answer) (all []engine.Answer) {
	for _, r := range requests {
		err := t.fits(r.N, r.Amounts)
		switch {
		case err != nil:
			all = append(all, engine.Answer{Err: err})
		case len(answers) == 0:
			return all
		default:
			all, answers = append(all, answers[0]), answers[1:]
		}
	}
	return all
}
