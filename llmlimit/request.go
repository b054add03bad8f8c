package llmlimit

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	perToken   = 4    // characters
	blobTokens = 1600 // of an image or another file in base64

	// A stretch of so many letters and digits is no text.
	shortestBlob = 1024

	// More tokens than any quota counts.
	most = math.MaxInt32
)

// request is what decides how much a request counts.
type request struct {
	path       string
	json       bool
	model      string
	limit      int // the most that may be written, 0 if the request does not say
	times      int // how many answers are written, at least 1
	characters int
	blobs      int
}

// parse reads a request. Its body stays as it is: another one has to be given by
// GetBody. Without that, only the length is known.
func parse(req *http.Request) request {
	r := request{
		path: req.URL.Path, times: 1, characters: int(max(0, req.ContentLength)),
		json: req.ContentLength != 0 && strings.HasPrefix(req.Header.Get("Content-Type"), "application/json"),
	}
	if !r.json {
		return r
	}
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			r.read(body)
		}
	}
	if _, model, ok := strings.Cut(r.path, "/models/"); ok { // Gemini
		r.model, _, _ = strings.Cut(model, ":")
	} else if _, model, ok := strings.Cut(r.path, "/deployments/"); ok { // Azure
		r.model, _, _ = strings.Cut(model, "/")
	}
	return r
}

// count reads any number as one from 0 to most.
type count int

func (c *count) UnmarshalJSON(text []byte) error {
	var f float64
	if err := json.Unmarshal(text, &f); err != nil {
		return nil // what is no number says nothing
	}
	*c = count(max(0, min(math.Ceil(f), most)))
	return nil
}

func (r *request) read(body io.ReadCloser) {
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	if err != nil {
		return
	}
	r.characters, r.blobs = characters(text)
	var fields struct {
		Model string

		MaxTokens           count `json:"max_tokens"`            // OpenAI, Azure, Anthropic
		MaxCompletionTokens count `json:"max_completion_tokens"` // OpenAI, Azure
		MaxOutputTokens     count `json:"max_output_tokens"`     // OpenAI, Azure: Responses
		N                   count
		BestOf              count `json:"best_of"`
	}
	_ = json.Unmarshal(text, &fields) // what cannot be read says nothing
	r.model = fields.Model
	r.limit = int(max(fields.MaxTokens, fields.MaxCompletionTokens, fields.MaxOutputTokens))
	r.times = int(max(1, fields.N, fields.BestOf))
}

// characters counts the characters of a body without the blobs in it, and the
// blobs.
func characters(body []byte) (text, blobs int) {
	text = utf8.RuneCount(body)
	for run := range bytes.FieldsFuncSeq(body, isNoBase64) {
		if len(run) >= shortestBlob {
			text -= len(run)
			blobs++
		}
	}
	return text, blobs
}

func isNoBase64(c rune) bool {
	letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	return !letter && !strings.ContainsRune("+/-_=", c)
}

// tokens is what so many characters and blobs are, where nothing else is known.
func (r request) tokens() int {
	return max(1, (r.characters+perToken-1)/perToken) + r.blobs*blobTokens
}

// timesAll is a number of tokens for each of the answers.
func (r request) timesAll(tokens int) int { return int(min(int64(r.times)*int64(tokens), most)) }

// other reports whether the provider counts no tokens of such a request.
func (r request) other(rules *rules) bool {
	return !r.json || slices.ContainsFunc(rules.others, func(end string) bool { return strings.HasSuffix(r.path, end) })
}
