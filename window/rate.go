package window

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrInvalidArgument says that an argument or an option is out of range.
	// Nothing was sent.
	ErrInvalidArgument = errors.New("fairlimit: invalid argument")

	// ErrNotInitialized says that there is no rate in Redis under this name.
	// [Admin.TrySetRate] and [Admin.SetRate] write one, and so does an engine
	// when it is first asked for permits.
	ErrNotInitialized = errors.New("fairlimit: no rate is set")
)

// Mode says who shares a rate. The zero value is [ModeOverall].
type Mode int

const (
	ModeOverall   Mode = iota // all clients together
	ModePerClient             // nobody: each client has it for itself, see [PerClient]
)

// Rate is what Redis holds for a limiter: Permits in any window of length Per.
// The zero value is out of range.
type Rate struct {
	Mode      Mode
	Permits   int           // 1 to 2³²−1; what Redisson wrote may be up to 2⁵³
	Per       time.Duration // whole milliseconds, 1 ms to 100 years
	KeepAlive time.Duration // see [KeepAlive]; 0: the keys live for ever
}

func (r Rate) check() error {
	switch wrong := r.wrong(); {
	case wrong != "":
		return fmt.Errorf("%w: %s", ErrInvalidArgument, wrong)
	case r.KeepAlive != 0 && (r.KeepAlive < r.Per || r.KeepAlive > longest || r.KeepAlive%time.Millisecond != 0):
		return fmt.Errorf("%w: KeepAlive is %v, want 0 or whole milliseconds, Per, which is %v, to %v",
			ErrInvalidArgument, r.KeepAlive, r.Per, longest)
	}
	return nil
}

// wrong says what is out of range besides KeepAlive, or "".
func (r Rate) wrong() string {
	switch {
	case r.Mode != ModeOverall && r.Mode != ModePerClient:
		return fmt.Sprintf("Mode is %d, want ModeOverall or ModePerClient", r.Mode)
	case r.Permits < 1 || int64(r.Permits) > mostPermits:
		return fmt.Sprintf("Permits is %d, want 1 to %d", r.Permits, mostPermits)
	case r.Per < time.Millisecond || r.Per > longest || r.Per%time.Millisecond != 0:
		return fmt.Sprintf("Per is %v, want whole milliseconds, 1ms to %v", r.Per, longest)
	}
	return ""
}

// words are the rate as the scripts take it.
func (r Rate) words() []any {
	return []any{r.Permits, r.Per.Milliseconds(), int(r.Mode), r.KeepAlive.Milliseconds()}
}
