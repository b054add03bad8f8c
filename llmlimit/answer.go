package llmlimit

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// answer is what the body of a response says was used. What it counts as 0, it may
// not have told.
type answer struct {
	whole bool // the output is that of the whole answer
	usage

	written int // characters of output that were seen in a stream
}

// usage is what was used, by the names of all providers. All counts of one answer
// are totals, so the largest of each is the last.
type usage struct {
	Input      count `json:"input_tokens"`
	Output     count `json:"output_tokens"`
	CacheWrite count `json:"cache_creation_input_tokens"` // Anthropic: not part of Input
	CacheRead  count `json:"cache_read_input_tokens"`     // Anthropic: likewise

	Prompt     count `json:"prompt_tokens"`     // OpenAI's Input
	Completion count `json:"completion_tokens"` // and Output
	Total      count `json:"total_tokens"`

	GeminiPrompt count `json:"promptTokenCount"`
	GeminiTools  count `json:"toolUsePromptTokenCount"`
}

// event is a JSON body, or what stands after "data:" in a stream.
type event struct {
	Usage    *usage // OpenAI, Azure; of Anthropic the whole body, and message_delta
	Gemini   *usage `json:"usageMetadata"`
	Response struct {
		Usage *usage // OpenAI, Azure: response.completed of Responses
	}
	Message struct {
		Usage *usage // Anthropic: message_start
	}
	Delta struct { // Anthropic: content_block_delta
		Text     string
		Thinking string
		JSON     string `json:"partial_json"`
	}
}

// read reads a body, or as much of it as is there. Its type is not always told: no
// line of JSON begins as those of a stream do.
func read(body []byte) (a answer) {
	body = bytes.TrimSpace(body)
	a.readStream(body)
	if !a.tells() {
		a.readAll(bytes.TrimPrefix(body, []byte{'['})) // Gemini streams an array
	}
	if !a.tells() {
		a.readTail(body)
	}
	return a
}

// tells reports whether the answer says what was used.
func (a *answer) tells() bool { return a.usage != usage{} }

func (a *answer) readStream(body []byte) {
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if ok && (bytes.Contains(data, []byte(`"usage`)) || bytes.Contains(data, []byte(`"content_block_delta"`))) {
			a.readAll(bytes.TrimSpace(data))
		}
	}
}

// readAll reads JSON objects, with commas in between, up to one that is not
// whole.
func (a *answer) readAll(objects []byte) {
	for len(objects) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(objects))
		var e event
		if err := decoder.Decode(&e); err != nil && !isWrongType(err) {
			return
		}
		a.add(e)
		objects = bytes.TrimLeft(objects[decoder.InputOffset():], ", \r\n\t")
	}
}

// isWrongType reports whether an object was read, but for a field of another
// type: a delta of OpenAI is text.
func isWrongType(err error) bool {
	_, wrong := err.(*json.UnmarshalTypeError)
	return wrong
}

// readTail finds the last usage in a body that lacks its beginning. A text that
// holds the word has another quote, or a backslash, before the colon.
func (a *answer) readTail(body []byte) {
	for _, key := range []string{`"usage":`, `"usage" :`, `"usageMetadata":`, `"usageMetadata" :`} {
		if i := bytes.LastIndex(body, []byte(key)); i >= 0 {
			var u usage
			if json.NewDecoder(bytes.NewReader(body[i+len(key):])).Decode(&u) == nil {
				a.add(event{Usage: &u})
			}
		}
	}
}

func (a *answer) add(e event) {
	a.written += utf8.RuneCountInString(e.Delta.Text + e.Delta.Thinking + e.Delta.JSON)
	for _, u := range []*usage{e.Message.Usage, e.Usage, e.Gemini, e.Response.Usage} {
		if u == nil {
			continue
		}
		a.whole = a.whole || u != e.Message.Usage
		a.usage = usage{
			Input:  max(a.Input, u.Input, u.Prompt, u.GeminiPrompt+u.GeminiTools),
			Output: max(a.Output, u.Output, u.Completion),
			Total:  max(a.Total, u.Total), CacheWrite: max(a.CacheWrite, u.CacheWrite),
			CacheRead: max(a.CacheRead, u.CacheRead),
		}
	}
}

// output is how many tokens were written, as far as was seen.
func (a answer) output() int {
	if a.whole {
		return int(a.Output)
	}
	return max(int(a.Output), (a.written+perToken-1)/perToken)
}

// total is what was read and written, 0 if one of them was not told.
func (a answer) total() int {
	if a.Input == 0 {
		return int(a.Total)
	}
	return int(max(a.Total, a.Input+a.Output))
}
