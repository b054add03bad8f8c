package redistest

import (
	"bufio"
	"errors"
	"io"
	"strconv"
)

// push is the first byte of what a server sends without having been asked.
const push = '>'

var errNoFrame = errors.New("redistest: not the Redis protocol")

// readFrame reads one whole command or reply, of protocol 2 or 3, and returns
// its bytes as they are.
func readFrame(r *bufio.Reader) ([]byte, error) { return appendFrame(nil, r) }

func appendFrame(frame []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	frame = append(frame, line...)
	if err != nil {
		return frame, err
	}
	if len(line) < 3 {
		return frame, errNoFrame
	}
	kind, parts := line[0], 0
	switch kind {
	case '+', '-', ':', ',', '#', '_', '(':
		return frame, nil
	case '$', '=', '!', '*', '~', '%', '|', push:
		if parts, err = strconv.Atoi(string(line[1 : len(line)-2])); err != nil {
			return frame, errNoFrame
		}
	default:
		return frame, errNoFrame
	}
	switch kind {
	case '$', '=', '!':
		if parts < 0 {
			return frame, nil
		}
		body := make([]byte, parts+2)
		_, err = io.ReadFull(r, body)
		return append(frame, body...), err
	case '%':
		parts *= 2
	case '|': // and the reply that they belong to
		parts = parts*2 + 1
	}
	for range parts {
		if frame, err = appendFrame(frame, r); err != nil {
			return frame, err
		}
	}
	return frame, nil
}

// readCommand reads one command, as bytes and as words.
func readCommand(r *bufio.Reader) (frame []byte, words []string, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return line, nil, err
	}
	if len(line) < 4 || line[0] != '*' {
		return line, nil, errNoFrame
	}
	count, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || count < 1 {
		return line, nil, errNoFrame
	}
	frame = line
	for range count {
		word, err := readFrame(r)
		frame = append(frame, word...)
		if err != nil {
			return frame, nil, err
		}
		if word[0] != '$' {
			return frame, nil, errNoFrame
		}
		head := 0
		for word[head] != '\n' {
			head++
		}
		words = append(words, string(word[head+1:len(word)-2]))
	}
	return frame, words, nil
}
