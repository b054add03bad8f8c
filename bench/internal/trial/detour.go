package trial

import (
	"fmt"

	"github.com/fairlimit/fairlimit/bench/internal/lag"
)

// detour opens the way that the clients take to Redis where the scenario holds
// up what it answers; via is empty where there is none.
func (t Trial) detour() (via string, end func(), err error) {
	if t.Scenario.Replies == nil {
		return "", func() {}, nil
	}
	proxy, err := lag.Open(t.Backend.Dial, t.Scenario.Replies.Draw, t.Load.Seed)
	if err != nil {
		return "", nil, fmt.Errorf("the way that holds up replies cannot be opened: %w", err)
	}
	return proxy.Addr, proxy.Close, nil
}
