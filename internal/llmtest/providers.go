package llmtest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/llmlimit"
)

// parts is in how many pieces an answer is streamed.
const parts = 4

// written is how many tokens a part has.
func (r Request) written(part int) int { return r.Output*part/parts - r.Output*(part-1)/parts }

// OpenAI charges the larger of the most that may be written and a quarter of the
// characters when a request comes, and leaves it at that.
func OpenAI(budgets map[string]fairlimit.Quota) *Upstream {
	start := func(r Request) map[string]int {
		return map[string]int{"": 1, llmlimit.Tokens: max(r.Most, (r.characters+3)/4)}
	}
	return build(rules{start: start, answer: chat}, budgets)
}

// Azure charges the prompt and the most that may be written, until the request
// has ended.
func Azure(budgets map[string]fairlimit.Quota) *Upstream {
	start := func(r Request) map[string]int {
		return map[string]int{"": 1, llmlimit.Tokens: (r.characters+3)/4 + r.Most}
	}
	end := func(r Request) map[string]int { return map[string]int{llmlimit.Tokens: r.input() + r.Output} }
	return build(rules{start: start, end: end, answer: chat}, budgets)
}

// Anthropic charges the input when a request comes, and the output as it is
// written.
func Anthropic(budgets map[string]fairlimit.Quota) *Upstream {
	start := func(r Request) map[string]int { return map[string]int{"": 1, llmlimit.InputTokens: r.input()} }
	return build(rules{start: start, writes: llmlimit.OutputTokens, answer: message}, budgets)
}

// write sends what a reader shall see at once.
func write(w http.ResponseWriter, format string, values ...any) {
	_, _ = fmt.Fprintf(w, format, values...)
	_ = http.NewResponseController(w).Flush()
}

func chat(w http.ResponseWriter, r Request, written func(part int)) {
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`,
		r.input(), r.Output, r.input()+r.Output)
	for part := 1; part <= parts; part++ {
		written(part)
		if r.Stream {
			write(w, `data: {"choices":[{"delta":{"content":%q}}],"usage":null}`+"\n\n",
				strings.Repeat("word", r.written(part)))
		}
	}
	switch {
	case !r.Stream:
		write(w, `{"choices":[{"message":{"content":"42"}}],"usage":%s}`, usage)
	case r.Options.Usage:
		write(w, `data: {"choices":[],"usage":%s}`+"\n\n", usage)
	}
}

func message(w http.ResponseWriter, r Request, written func(part int)) {
	event := func(kind, format string, values ...any) {
		if r.Stream {
			write(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, fmt.Sprintf(format, values...))
		}
	}
	event("message_start", `"message":{"usage":{"input_tokens":%d,"output_tokens":1}}`, r.input())
	for part := 1; part <= parts; part++ {
		written(part)
		event("content_block_delta", `"delta":{"type":"text_delta","text":%q}`,
			strings.Repeat("word", r.written(part)))
	}
	event("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}`, r.Output)
	if !r.Stream {
		write(w, `{"content":[],"usage":{"input_tokens":%d,"output_tokens":%d}}`, r.input(), r.Output)
	}
}
