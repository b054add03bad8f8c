// Package naming says of which limiter an error is.
package naming

import (
	"fmt"
	"strings"
)

// Prefix is what a text of this library begins with.
const Prefix = "fairlimit: "

// Begin is what a text of the limiter of this name begins with.
func Begin(limiter string) string { return fmt.Sprintf("%s%.100q: ", Prefix, limiter) }

// Of says that err is one of the limiter of this name; nil stays nil. Parts of
// it were made by code that does not know the name, and may each begin with the
// prefix. The text has it once.
func Of(limiter string, err error) error {
	if err == nil {
		return nil
	}
	return &limiterError{limiter, err}
}

type limiterError struct {
	limiter string
	err     error
}

func (e *limiterError) Error() string {
	return Begin(e.limiter) + strings.ReplaceAll(e.err.Error(), Prefix, "")
}

func (e *limiterError) Unwrap() error { return e.err }

// Pattern is a text as SCAN's pattern for it.
func Pattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
