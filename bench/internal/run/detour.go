package run

import (
	"fmt"
)

// detour opens the way to Redis that the clients take if the scenario holds up
// Redis's answers. If the scenario does not, via is empty.
func (t Trial) detour() (via string, end func(), err error) {
	if t.Scenario.Replies == nil {
		return "", func() {}, nil
	}
	proxy, err := Open(t.Backend.Dial, t.Scenario.Replies.Draw, t.Load.Seed)
	if err != nil {
		return "", nil, fmt.Errorf("the way that holds up replies cannot be opened: %w", err)
	}
	return proxy.Addr, proxy.Close, nil
}
