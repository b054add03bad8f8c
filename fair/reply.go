package fair

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// reply is what a script said, which watermark the question carried, and when it
// was asked and answered.
type reply struct {
	said    any
	carried string
	sent    time.Time // when the question was put together
	ran     time.Time // when the command went that it answers
	arrived time.Time
}

// outcome is what the script replies to 'take'.
type outcome struct {
	answers   []engine.Answer
	watermark watermark // zero if nothing was written
	news      news      // of no queue if there are none
	places    []place
}

// decode is the one place that knows the replies of lua/fair/take.lua, share.lua
// and turns.lua. The requests are those that one question asked for.
func decode(reply any, t *quotaSet, requests []engine.Request) (o outcome, err error) {
	ofUnits, ofFlows := len(t.units) > 0, requests[0].Flow != nil
	elements, isList := reply.([]any)
	wait, isWait := reply.(int64)
	text, isText := reply.(string)
	switch {
	case isList:
		err = decodeList(&o, elements, ofUnits, ofFlows, requests)
	case isWait && wait >= 0 && !ofUnits && !ofFlows:
		err = o.unfold([]int64{wait, -int64(len(requests)), 0}, requests)
	case isText && !ofUnits && !ofFlows:
		err = decodePlain(&o, text, requests)
	default:
		err = errors.New("no answers")
	}
	if err != nil {
		return outcome{}, misread(reply, err)
	}
	return o, nil
}

// decodeList: what to remember of the queue and its news, the sequences of the
// units and the shares of the flows if there are any, then answers in runs.
func decodeList(o *outcome, elements []any, ofUnits, ofFlows bool, requests []engine.Request) error {
	from := 2
	if ofUnits {
		from++
	}
	if ofFlows {
		from++
	}
	if len(elements) < from+3 || (len(elements)-from)%3 > 0 {
		return fmt.Errorf("%d elements", len(elements))
	}
	runs, err := integers(elements[from:])
	if err = cmp.Or(err, o.learn(elements[0], elements[1])); err == nil {
		err = o.unfold(runs, requests)
	}
	if err == nil && ofUnits {
		err = o.count(elements[2])
	}
	if err == nil && ofFlows {
		err = o.share(elements[from-1], requests)
	}
	return err
}

func misread(reply any, err error) error {
	return fmt.Errorf("%w: the script replied %.200q: %w", engine.ErrOutcomeUnknown, fmt.Sprint(reply), err)
}

// decodePlain: all requests were granted, at the newest slot or in a row up to
// it. The clock runs.
func decodePlain(o *outcome, reply string, requests []engine.Request) error {
	s, offset, step, err := parseTold(reply)
	if err != nil {
		return err
	}
	count := int64(len(requests))
	o.watermark, o.news = s, s.news(offset)
	return o.unfold([]int64{s.newest - s.clock - (count-1)*step, count, step}, requests)
}

// learn reads the two texts that a reply begins with.
func (o *outcome) learn(told, news any) (err error) {
	text, isText := told.(string)
	if !isText {
		return fmt.Errorf("a %T first", told)
	}
	if text != "" {
		var offset int64
		if o.watermark, offset, _, err = parseTold(text); err != nil {
			return err
		}
		o.news = o.watermark.news(offset)
	}
	if news == "" {
		return nil
	}
	o.news, err = parseNews(news)
	return err
}

// unfold answers the requests in runs: how far ahead of the clock the first of
// each is, how many there are, negative where they were refused, and how much
// further each is than the one before it. For requests that a ceiling holds back
// the last is in how long to ask again, negative if the flow's pause does; 1 if it
// refuses them, 2 if the pause does.
func (o *outcome) unfold(runs []int64, requests []engine.Request) error {
	o.answers = make([]engine.Answer, 0, len(requests))
	generation, made := o.watermark.generation(), o.watermark.granted()
	for ; len(runs) > 0; runs = runs[3:] {
		ahead, count, step, granted := runs[0], runs[1], runs[2], runs[1] > 0
		if !granted {
			count = -count
		}
		if count < 1 || count > int64(len(requests)-len(o.answers)) || granted && generation == "" ||
			ahead < 0 && (granted || ahead < tooMany) {
			return fmt.Errorf("%d answers too many, or a run of none", count)
		}
		for range count {
			at, r := o.news.Clock+min(ahead, farthest), requests[len(o.answers)]
			a := engine.Answer{Granted: granted, Wait: o.news.Until(at), Paused: o.news.Stands}
			switch {
			case granted:
				a.Comes = o.news.Comes(at)
				a.Grant = engine.Grant{ID: generation, At: at, N: r.N, Amounts: r.Amounts, Made: made}
				if r.Flow != nil {
					a.Grant.Flow = r.Flow.ID
				}
				ahead += step
			case ahead == full || ahead >= 0 && r.MaxWait >= longestWait:
				a = engine.Answer{Err: engine.ErrFull}
			case ahead == left:
				a = engine.Answer{Left: true, Wait: microseconds(max(step, -step)), Paused: microseconds(max(0, -step))}
			case ahead == tooMany:
				a = engine.Answer{Err: fmt.Errorf("%w of its flow: %d asked for", engine.ErrExceedsQuota, r.N)}
			case step == 1:
				a.Ceiling = true
			case step == 2:
				a.Paused = a.Wait
			}
			o.answers = append(o.answers, a)
		}
	}
	return nil
}

// How far ahead a request is that the queue cannot count any more, one that goes
// over the share of its flow, and one for more than the ceiling of its flow. A
// request that accepts any wait is refused only where its turn lies beyond what
// can be counted.
const (
	full    = -1
	left    = -2
	tooMany = -3
)

// farthest is how far ahead a slot can be. A cell that is damaged may say more.
const farthest = 1 << 52

// decodeStatus is the one place that knows the reply of lua/fair/status.lua.
func decodeStatus(reply any) (status engine.Status, n news, err error) {
	elements, _ := reply.([]any)
	if len(elements) != 4 {
		return status, n, misread(reply, fmt.Errorf("%d elements", len(elements)))
	}
	numbers, err := integers(elements[:3])
	if err == nil && elements[3] != "" {
		n, err = parseNews(elements[3])
	}
	if err != nil {
		return status, n, misread(reply, err)
	}
	return engine.Status{
		Available: int(numbers[0]), Queued: int(numbers[1]),
		Delay: microseconds(min(numbers[2], farthest)), Paused: n.Stands,
	}, n, nil
}

// integers returns the elements of a reply as numbers.
func integers(elements []any) ([]int64, error) {
	numbers := make([]int64, len(elements))
	for i, e := range elements {
		n, ok := e.(int64)
		if !ok {
			return nil, fmt.Errorf("a %T instead of a number", e)
		}
		numbers[i] = n
	}
	return numbers, nil
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
