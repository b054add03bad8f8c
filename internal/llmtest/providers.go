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

// OpenAI charges the larger of the most that may be written and a quarter of the
// characters when a request comes, and leaves it at that.
func OpenAI(requests, tokens fairlimit.Quota) *Upstream {
	return build(rules{
		start: func(r request) map[string]int {
			return map[string]int{"": 1, llmlimit.Tokens: max(r.most, (r.characters+3)/4)}
		},
		answer: chat,
	}, map[string]fairlimit.Quota{"": requests, llmlimit.Tokens: tokens})
}

// Azure charges the prompt and the most that may be written, until the request
// has ended.
func Azure(requests, tokens fairlimit.Quota) *Upstream {
	return build(rules{
		start: func(r request) map[string]int {
			return map[string]int{"": 1, llmlimit.Tokens: (r.characters+3)/4 + r.most}
		},
		end:    func(r request) map[string]int { return map[string]int{llmlimit.Tokens: r.input() + r.output} },
		answer: chat,
	}, map[string]fairlimit.Quota{"": requests, llmlimit.Tokens: tokens})
}

// Anthropic charges the input when a request comes, and the output as it is
// written.
func Anthropic(requests, input, output fairlimit.Quota) *Upstream {
	return build(rules{
		start: func(r request) map[string]int {
			return map[string]int{"": 1, llmlimit.InputTokens: r.input()}
		},
		writes: llmlimit.OutputTokens,
		answer: message,
	}, map[string]fairlimit.Quota{"": requests, llmlimit.InputTokens: input, llmlimit.OutputTokens: output})
}

// words is a part of an answer.
func words(r request, part int) string {
	return strings.Repeat("word", r.output*part/parts-r.output*(part-1)/parts)
}

// write sends what a reader shall see at once.
func write(w http.ResponseWriter, format string, values ...any) {
	_, _ = fmt.Fprintf(w, format, values...)
	_ = http.NewResponseController(w).Flush()
}

func chat(w http.ResponseWriter, r request, written func(part, parts int)) {
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`,
		r.input(), r.output, r.input()+r.output)
	if !r.stream {
		written(1, 1)
		write(w, `{"id":"c","object":"chat.completion","model":"m-2026-01-01",`+
			`"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"42"}}],"usage":%s}`, usage)
		return
	}
	const chunk = `data: {"id":"c","object":"chat.completion.chunk","model":"m-2026-01-01","choices":[%s],` +
		`"usage":%s}` + "\n\n"
	for part := 1; part <= parts; part++ {
		written(part, parts)
		write(w, chunk, fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","content":%q}}`, words(r, part)), "null")
	}
	if r.usage {
		write(w, chunk, "", usage)
	}
	write(w, "data: [DONE]\n\n")
}

func message(w http.ResponseWriter, r request, written func(part, parts int)) {
	const whole = `{"id":"m","type":"message","role":"assistant","model":"m","content":[%s],"stop_reason":%s,` +
		`"usage":{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":%d}}`
	if !r.stream {
		written(1, 1)
		write(w, whole, `{"type":"text","text":"42"}`, `"end_turn"`, r.input(), r.output)
		return
	}
	event := func(kind, data string) { write(w, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, data) }
	event("message_start", `,"message":`+fmt.Sprintf(whole, "", "null", r.input(), 1))
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	for part := 1; part <= parts; part++ {
		written(part, parts)
		event("content_block_delta",
			fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, words(r, part)))
	}
	event("content_block_stop", `,"index":0`)
	event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null}`+
		fmt.Sprintf(`,"usage":{"output_tokens":%d}`, r.output))
	event("message_stop", "")
}
