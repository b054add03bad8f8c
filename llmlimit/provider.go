package llmlimit

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/estimate"
	"github.com/fairlimit/fairlimit/httplimit"
)

// Provider is an upstream, with its rules.
type Provider struct{ rules *rules }

// The providers whose rules are known: see above.
var (
	OpenAI    = Provider{openAI}
	Azure     = Provider{azure}
	Anthropic = Provider{anthropic}
	Gemini    = Provider{gemini}
)

var (
	openAI = &rules{
		reserve: func(r request, _ *estimate.Estimator) fairlimit.Amounts {
			return fairlimit.Amounts{Tokens: r.timesAll(max(r.limit, r.tokens()))}
		},
	}
	azure = &rules{
		reserve: func(r request, guesses *estimate.Estimator) fairlimit.Amounts {
			written := r.limit
			if written == 0 {
				written = guess(guesses, r.model, firstOutput)
			}
			return fairlimit.Amounts{Tokens: r.tokens() + r.timesAll(written)}
		},
		used: func(r request, a answer, guesses *estimate.Estimator) fairlimit.Amounts {
			sawOutput(r, a, guesses)
			return known(fairlimit.Amounts{Tokens: a.total()})
		},
	}
	anthropic = &rules{
		reserve: func(r request, guesses *estimate.Estimator) fairlimit.Amounts {
			written := guess(guesses, r.model, firstOutput)
			if r.limit > 0 {
				written = min(written, r.limit)
			}
			return fairlimit.Amounts{InputTokens: guessInput(r, guesses), OutputTokens: written}
		},
		used: func(r request, a answer, guesses *estimate.Estimator) fairlimit.Amounts {
			input := int(a.Input + a.CacheWrite)
			if strings.HasPrefix(r.model, "claude-3-5-haiku") {
				input += int(a.CacheRead)
			}
			sawInput(r, input, guesses)
			if a.whole {
				sawOutput(r, a, guesses)
			}
			used := known(fairlimit.Amounts{InputTokens: input, OutputTokens: a.output()})
			if a.CacheRead > 0 {
				used[InputTokens] = input // maybe none
			}
			return used
		},
		guessed: []string{InputTokens, OutputTokens},
		others:  []string{"/messages/count_tokens", "/messages/batches"},
	}
	gemini = &rules{
		reserve: func(r request, guesses *estimate.Estimator) fairlimit.Amounts {
			return fairlimit.Amounts{InputTokens: guessInput(r, guesses)}
		},
		used: func(r request, a answer, guesses *estimate.Estimator) fairlimit.Amounts {
			sawInput(r, int(a.Input), guesses)
			return known(fairlimit.Amounts{InputTokens: int(a.Input)})
		},
		guessed: []string{InputTokens},
		others:  []string{":countTokens"},
		delay:   retryInfo,
	}
)

// rules are what a provider counts.
type rules struct {
	reserve func(request, *estimate.Estimator) fairlimit.Amounts
	used    func(request, answer, *estimate.Estimator) fairlimit.Amounts // nil: nothing is settled
	guessed []string                                                     // units whose amounts are guesses
	others  []string                                                     // ends of paths that count otherwise

	// delay is what the body of a 429 asks for. It is nil if a header does.
	delay func(body []byte) time.Duration
}

// firstOutput is the guess of an output before anything is known of a model.
const firstOutput = 512

// guess is what is known of a key, or first if that is nothing.
func guess(guesses *estimate.Estimator, key string, first int) int {
	if known := guesses.Guess(key, most); known < most {
		return known
	}
	return first
}

// Of input, the tokens of perMany characters are estimated, under this key.
const (
	perMany  = 10_000
	inputKey = " input"
)

func guessInput(r request, guesses *estimate.Estimator) int {
	known := guess(guesses, r.model+inputKey, 0)
	if known == 0 || r.blobs > 0 {
		return r.tokens()
	}
	return max(1, int(math.Ceil(float64(known)*float64(r.characters)/perMany)))
}

func sawInput(r request, used int, guesses *estimate.Estimator) {
	if used > 0 && r.characters > 0 && r.blobs == 0 {
		guesses.Saw(r.model+inputKey, int(math.Ceil(float64(used)*perMany/float64(r.characters))))
	}
}

func sawOutput(r request, a answer, guesses *estimate.Estimator) {
	if a.Output > 0 {
		guesses.Saw(r.model, int(a.Output))
	}
}

// known leaves out what an answer tells nothing of: it counts as it was reserved.
func known(used fairlimit.Amounts) fairlimit.Amounts {
	maps.DeleteFunc(used, func(_ string, n int) bool { return n == 0 })
	return used
}

// after is how long the upstream wants to be left alone: what its header says, or
// a second.
func after(resp *http.Response, received time.Time) (time.Duration, bool) {
	if pause, ok := httplimit.RetryAfter(resp, received); ok {
		return pause, true
	}
	return time.Second, resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == 529
}

// retryInfo reads google.rpc.RetryInfo. Where content is streamed as an array, an
// error is its only element.
func retryInfo(body []byte) time.Duration {
	var failure struct {
		Error struct {
			Details []struct {
				Type  string `json:"@type"`
				Delay string `json:"retryDelay"`
			}
		}
	}
	object := bytes.TrimLeft(body, "[ \r\n\t")
	_ = json.NewDecoder(bytes.NewReader(object)).Decode(&failure) // what cannot be read says nothing
	for _, d := range failure.Error.Details {
		if strings.HasSuffix(d.Type, "google.rpc.RetryInfo") {
			delay, _ := time.ParseDuration(d.Delay) // 0 pauses nobody
			return delay
		}
	}
	return 0
}
