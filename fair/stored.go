package fair

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/lua"
)

const (
	// mostChanges is how often in a row a question may learn that other quotas
	// are stored.
	mostChanges = 4

	// longestText is how many bytes a stored text may have: eight quotas with
	// blanks between.
	longestText = 1000
)

// errChanged says that other quotas are stored than those that a question was
// asked under. It has done nothing, and they are known now.
var errChanged = errors.New("other quotas are stored")

// Both match [engine.ErrNoQuota].
var (
	errNotGiven = fmt.Errorf("%w: this queue was opened without one; NewQueue takes one, "+
		"and Open goes by the stored one if it is given WithStoredQuota", engine.ErrNoQuota)
	errNotStored = fmt.Errorf("%w: none is stored; SetQuotas stores one", engine.ErrNoQuota)
)

// unreadableQuotas matches [engine.ErrState]. It has words of its own, as Reset
// leaves stored quotas alone.
type unreadableQuotas struct {
	key string
	err error
}

func (e *unreadableQuotas) Error() string {
	return fmt.Sprintf(
		"fairlimit: the stored quotas in %q cannot be used (SetQuotas or `fairlimit quota` stores others): %v",
		e.key, e.err)
}

func (e *unreadableQuotas) Unwrap() []error { return []error{engine.ErrState, e.err} }

// held are the quotas that hold, as far as is known.
func (f *fair) held() *quotaSet {
	if f.stored {
		return f.known.Load()
	}
	return f.quotaSet
}

// under asks under the quotas that are known, and again under those that the
// question learns instead.
func (f *fair) under(ask func(*quotaSet) error) error {
	for range mostChanges {
		if err := ask(f.held()); !errors.Is(err, errChanged) {
			return err
		}
	}
	err := fmt.Errorf("they changed %d times while one question was asked", mostChanges)
	return &unreadableQuotas{f.quotaKey(), err}
}

// whatever is under, for what has to be done even if what is stored is no quota.
func (f *fair) whatever(ask func(*quotaSet) error) error {
	err := f.under(ask)
	if !errors.As(err, new(*unreadableQuotas)) {
		return err
	}
	return ask(f.held().underAnyText())
}

// underAnyText are the same quotas, for a question that does its work whatever is
// stored: see lua/fair/quota.lua.
func (t *quotaSet) underAnyText() *quotaSet {
	same := *t
	same.text = "*"
	return &same
}

// askUnder runs a script that compares the quotas with what is stored.
func (f *fair) askUnder(
	ctx context.Context, script *lua.Script, t *quotaSet, args []any, logs ...string,
) (reply, error) {
	if !f.stored {
		return f.ask(ctx, script, args, logs...)
	}
	r, err := f.ask(ctx, script, append(args, t.text), logs...)
	if text, changed := r.quotas(); changed {
		return reply{}, f.adopt(t, text)
	}
	return r, err
}

// quotas is the text that a script replies if it is not the one it was sent.
func (r reply) quotas() (text string, changed bool) {
	word, _ := r.said.(string)
	return strings.CutPrefix(word, "QUOTA ")
}

// adopt makes a stored text the one that is known.
func (f *fair) adopt(known *quotaSet, text string) error {
	if len(text) > longestText {
		return &unreadableQuotas{f.quotaKey(), fmt.Errorf("%d bytes, want at most %d", len(text), longestText)}
	}
	t, err := f.storedQuotaSet(text)
	if err != nil {
		return &unreadableQuotas{f.quotaKey(), err}
	}
	f.known.CompareAndSwap(known, t) // or another question was faster
	return errChanged
}

// takeFitting refuses what exceeds the stored quotas, once it is sure that these
// are still the same.
func (f *fair) takeFitting(ctx context.Context, t *quotaSet, requests []engine.Request) ([]engine.Answer, error) {
	fitting := t.fitting(requests)
	if len(fitting) == 0 {
		if _, err := f.statusBy(ctx, t); err != nil {
			return nil, err
		}
		if len(t.windows) == 0 {
			return nil, errNotStored
		}
		return t.refuse(requests, nil), nil
	}
	answers, err := f.takeUnder(ctx, t, fitting)
	if len(fitting) == len(requests) || answers == nil {
		return answers, err
	}
	return t.refuse(requests, answers), err
}

// quotaKey is where the quotas are stored, in the same hash slot.
func (f *fair) quotaKey() string { return f.key + ":quota" }

// sharesSlot returns an error where a Cluster may keep the two keys on
// different servers: between the first brace of a key and the next closing one
// there must be something.
func (f *fair) sharesSlot() error {
	_, tag, _ := strings.Cut(f.key, "{")
	switch f.client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		if strings.HasPrefix(tag, "}") {
			return fmt.Errorf("%w: quotas that are stored for a name that begins with }, on a Cluster or Ring",
				engine.ErrUnsupported)
		}
	}
	return nil
}

// Quotas asks for those that are stored, as Status asks: so it restores what was
// lost. A limiter that goes by its own quotas only asks nothing.
func (f *fair) Quotas(ctx context.Context) (quotas []engine.Quota, stored bool, err error) {
	switch {
	case !f.stored && len(f.quotas) > 0:
		return f.quotas, false, nil
	case !f.stored:
		return f.readQuotas(ctx)
	}
	err = f.under(func(t *quotaSet) error {
		quotas, stored = t.quotas, t.text != ""
		_, err := f.statusBy(ctx, t)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return quotas, stored, nil
}

// readQuotas is for those who have none and do not go by those that are stored.
// If they know of a queue, it costs a second question.
func (f *fair) readQuotas(ctx context.Context) (quotas []engine.Quota, stored bool, err error) {
	if err := f.sharesSlot(); err != nil {
		return nil, false, err
	}
	if f.memory.recall(f.quotaSet).watermark != "" {
		if _, err := f.Status(ctx); err != nil {
			return nil, false, err
		}
	}
	keys := []string{f.key, f.quotaKey()}
	r, err := f.askKeys(ctx, f.scripts.quotas, keys, append(f.args(f.quotaSet, 1), ""))
	if err != nil {
		return nil, false, err
	}
	text, stored := r.quotas()
	if !stored || text == "" {
		return nil, false, nil
	}
	t, err := f.storedQuotaSet(text)
	if err != nil {
		return nil, false, &unreadableQuotas{f.quotaKey(), err}
	}
	return t.quotas, true, nil
}

// SetQuotas stores the quotas of the units beside those of calls, as they are
// stored or given, and lets the queue obey them: four questions in all. An
// error matches [engine.ErrUnsupported] for quotas that [New] would refuse.
func (f *fair) SetQuotas(ctx context.Context, quotas []engine.Quota) error {
	err := f.sharesSlot()
	if err == nil && f.stored {
		err = f.under(func(t *quotaSet) error { return f.look(ctx, t, f.scripts.quotas) })
	}
	if err != nil && !errors.As(err, new(*unreadableQuotas)) {
		return err
	}
	var units []engine.Unit
	if len(quotas) > 0 {
		units = f.held().unitsOf
	}
	t, err := f.quotaSetOf(quotas, units, quotatext.FormatUnits(quotas, units))
	if err == nil && len(t.text) > longestText {
		err = fmt.Errorf("%w: quotas of %d bytes as text, want at most %d", engine.ErrUnsupported, len(t.text), longestText)
	}
	if err != nil {
		return err
	}
	if _, err := f.askKeys(ctx, f.scripts.set, []string{f.key, f.quotaKey()}, []any{t.text}); err != nil {
		return err
	}
	if f.stored {
		f.known.Store(t)
		err = f.under(func(t *quotaSet) error { return f.obey(ctx, t) })
	} else {
		err = f.obey(ctx, t)
	}
	if errors.Is(err, engine.ErrUnreachable) { // but only since
		err = fmt.Errorf("%w: the quotas are stored, and then Redis was gone: %v", engine.ErrOutcomeUnknown, err)
	}
	return err
}
