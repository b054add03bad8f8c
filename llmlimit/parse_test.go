package llmlimit

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/estimate"
)

func post(t testing.TB, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	return req
}

func claude(input, output int) fairlimit.Amounts {
	return fairlimit.Amounts{InputTokens: input, OutputTokens: output}
}

// padded is a JSON object of so many characters, with the fields.
func padded(characters int, fields string) string {
	body := `{` + fields + `,"input":"`
	return body + strings.Repeat("é ", (characters-len(body)-2)/2) + `"}`
}

const (
	chat     = "https://api.openai.com/v1/chat/completions"
	messages = "https://api.anthropic.com/v1/messages"
	gemini25 = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:"
	deployed = "https://me.openai.azure.com/openai/deployments/mine/chat/completions?api-version=1"
)

func TestWhatARequestReserves(t *testing.T) {
	image := `{"model":"m","data":"` + strings.Repeat("iVBORw0KGgo/", 1000) + `"}`
	input := fairlimit.Amounts{InputTokens: 1000}
	total := func(n int) fairlimit.Amounts { return fairlimit.Amounts{Tokens: n} }
	for name, test := range map[string]struct {
		provider  Provider
		url, body string
		want      fairlimit.Amounts
	}{
		"max_output_tokens":               {OpenAI, chat, `{"max_output_tokens":502}`, total(502)},
		"the largest of them":             {OpenAI, chat, `{"max_tokens":3,"max_completion_tokens":400}`, total(400)},
		"times best_of":                   {OpenAI, chat, `{"max_tokens":500,"n":2,"best_of":4}`, total(2000)},
		"characters, not bytes":           {OpenAI, chat, padded(4000, `"max_tokens":500`), total(1000)},
		"other numbers":                   {OpenAI, chat, `{"max_tokens":1e3,"n":null,"best_of":"x"}`, total(1000)},
		"no number below 0":               {OpenAI, chat, `{"max_tokens":-9,"n":-9}`, total(6)},
		"what is far too much stays so":   {OpenAI, chat, `{"max_tokens":1e300,"n":1e300}`, total(most)},
		"no body":                         {OpenAI, chat, "", nil},
		"no JSON":                         {OpenAI, chat, `{"max_tokens":`, total(4)},
		"an image":                        {OpenAI, chat, image, total(1600 + 6)},
		"prompt and n times most":         {Azure, deployed, padded(4000, `"max_tokens":500,"n":2`), total(2000)},
		"prompt and a guess":              {Azure, deployed, padded(4000, `"n":1`), total(1512)},
		"input and most":                  {Anthropic, messages, padded(4000, `"max_tokens":500`), claude(1000, 500)},
		"input and a guess":               {Anthropic, messages, padded(4000, `"max_tokens":64000`), claude(1000, 512)},
		"counting tokens is one call":     {Anthropic, messages + "/count_tokens", padded(4000, `"model":"m"`), nil},
		"so is a batch":                   {Anthropic, messages + "/batches", padded(4000, `"model":"m"`), nil},
		"input alone":                     {Gemini, gemini25 + "generateContent", padded(4000, `"x":1`), input},
		"counting tokens of Gemini's too": {Gemini, gemini25 + "countTokens", `{"x":1}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := &limiter{rules: test.provider.rules, guesses: estimate.New(0)}
			req := post(t, test.url, test.body)
			assert.Equal(t, test.want, l.amounts(req))
			left := make([]byte, len(test.body))
			n, _ := req.Body.Read(left)
			assert.Equal(t, test.body, string(left[:n]), "the body is still to be sent")
		})
	}
	l := &limiter{rules: OpenAI.rules, guesses: estimate.New(0)}
	form := post(t, "https://api.openai.com/v1/files", strings.Repeat("x", 4000))
	form.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	assert.Nil(t, l.amounts(form))
	blind := post(t, chat, padded(4000, `"max_tokens":9000`))
	blind.GetBody = nil
	assert.GreaterOrEqual(t, l.amounts(blind)[Tokens], 1000, "the length of a body that cannot be read is known")
}

// stream writes events as a provider does.
func stream(events ...string) string {
	var all strings.Builder
	for _, e := range events {
		all.WriteString("event: e\r\ndata: " + e + "\r\n\r\n")
	}
	return all.String()
}

const (
	text   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"12345678"}}`
	cached = `"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000`
	start  = `{"type":"message_start","message":{"model":"m","content":[],"usage":{` + cached + `,"output_tokens":1}}}`
	stop   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}`
	more   = `{"type":"message_delta","usage":{"input_tokens":30,"output_tokens":9}}`
	tool   = `{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":7}}}],"usage":{`

	hi    = `{"choices":[{"delta":{"content":"hi"}}],"usage":null}`
	quote = `{"choices":[{"message":{"content":"{\"usage\":{\"total_tokens\":9}}"}}],`
	ended = `"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`
	delta = `{"type":"response.output_text.delta","delta":"\"usage"}`
	whole = `{"type":"response.completed","response":{"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}}}`

	tools = `{"candidates":[{}],"usageMetadata":{"promptTokenCount":9,"toolUsePromptTokenCount":3,"totalTokenCount":42}}`
	part1 = `{"usageMetadata":{"promptTokenCount":12,"totalTokenCount":13}}`
	part2 = `{"usageMetadata":{"promptTokenCount":12,"totalTokenCount":20}}`
)

func TestWhatAnAnswerSettles(t *testing.T) {
	total := fairlimit.Amounts{Tokens: 15}
	input, output := fairlimit.Amounts{InputTokens: 12}, fairlimit.Amounts{OutputTokens: 15}
	for name, test := range map[string]struct {
		provider Provider
		body     string
		want     fairlimit.Amounts
	}{
		"chat":                  {Azure, quote + ended, total},
		"responses":             {Azure, `{"output":[],"usage":{"input_tokens":10,"output_tokens":5}}`, total},
		"a stream of chat":      {Azure, stream(hi, `{"choices":[],`+ended, `[DONE]`), total},
		"a stream of responses": {Azure, stream(delta, whole), total},
		"an error":              {Azure, `{"error":{"message":"no"}}`, nil},
		"half of it":            {Azure, `{"usage":{"completion_tokens":9}}`, nil},

		"a message":             {Anthropic, tool + cached + `,"output_tokens":40}}`, claude(125, 40)},
		"a stream of a message": {Anthropic, stream(start, text, text, stop), claude(125, 15)},
		"totals that grew":      {Anthropic, stream(start, text, more), claude(130, 9)},
		"a stream closed early": {Anthropic, stream(start, text, text, text), claude(125, 6)},
		"cut within an event":   {Anthropic, strings.TrimSpace(stream(start, text, stop))[:370], claude(125, 2)},
		"the end of it":         {Anthropic, stream(text, stop)[30:], output},
		"nobody saw its end":    {Anthropic, stream(text, text), nil},
		"output alone":          {Anthropic, `{"usage":{"input_tokens":"7","output_tokens":15}}`, output},
		"all from a cache":      {Anthropic, `{"usage":{"cache_read_input_tokens":9,"output_tokens":5}}`, claude(0, 5)},

		"content":                  {Gemini, tools, input},
		"a stream of content":      {Gemini, stream(part1, part2), input},
		"an array of content, cut": {Gemini, "[" + part1 + "\n,\r\n" + `{"candidates":[{"con`, input},
		"the tail of a long one":   {Gemini, `a \"usage\": {} of a text"}],` + part1[1:], input},
	} {
		t.Run(name, func(t *testing.T) {
			l := &limiter{rules: test.provider.rules, guesses: estimate.New(0)}
			resp := &http.Response{StatusCode: http.StatusOK, Request: post(t, messages, `{"model":"m"}`)}
			used, ok := l.used(resp, []byte(test.body))
			require.Equal(t, test.want != nil, ok)
			if ok {
				assert.Equal(t, test.want, used)
			}
			resp.StatusCode = http.StatusBadRequest
			_, ok = l.used(resp, []byte(test.body))
			assert.False(t, ok, "an error settles nothing")
		})
	}
}

func TestWhatWasUsedIsGuessedNextTime(t *testing.T) {
	l := &limiter{rules: Anthropic.rules, guesses: estimate.New(0)}
	req := post(t, messages, padded(4000, `"model":"m","max_tokens":4096`))
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req}
	for range 4 {
		_, ok := l.used(resp, []byte(`{"usage":{"input_tokens":100,"cache_read_input_tokens":900,"output_tokens":250}}`))
		require.True(t, ok)
	}
	twice := post(t, messages, padded(8000, `"model":"m","max_tokens":4096`))
	assert.Equal(t, fairlimit.Amounts{InputTokens: 200, OutputTokens: 250}, l.amounts(twice))
	short := post(t, messages, padded(8000, `"model":"m","max_tokens":10`))
	assert.Equal(t, 10, l.amounts(short)[OutputTokens])
	other := post(t, messages, padded(8000, `"model":"o","max_tokens":4096`))
	assert.Equal(t, fairlimit.Amounts{InputTokens: 2000, OutputTokens: 512}, l.amounts(other))

	haiku := post(t, messages, `{"model":"claude-3-5-haiku-20241022"}`)
	answer := read([]byte(`{"usage":{"input_tokens":100,"cache_read_input_tokens":900}}`))
	used := Anthropic.rules.used(parse(haiku), answer, l.guesses)
	assert.Equal(t, 1000, used[InputTokens], "it pays for what it reads from its cache")
}
