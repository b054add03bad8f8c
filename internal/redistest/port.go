package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// port is a port of the loopback interface. It is its owner's until it is given
// back, also while nobody listens on it. Tests of other packages run at the same
// time. If another server took the port of a killed one, that could not restart,
// and its clients, Sentinels and fellow nodes would take the other for it.
//
// Ports are even. The owner listens on the odd one above, which only one
// process can, and which is free again when that process is no more.
type port struct {
	number int
	lease  net.Listener
}

// takePort returns a port that nobody listens on. It lies below those that
// systems hand out for outgoing connections, and so does the port 10000 above
// it, which a cluster node takes too.
func takePort() (port, error) {
	for range 1000 {
		if p, ok := lease(10000 + 2*rand.IntN(5000)); ok {
			return p, nil
		}
	}
	return port{}, errors.New("redistest: none of 1000 ports is free, or this process has too many files open")
}

// lease takes the port, unless it has an owner or somebody listens on it.
func lease(number int) (port, bool) {
	l, err := listen(number + 1)
	if err != nil {
		return port{}, false
	}
	p := port{number, l}
	if canListen(number) && canListen(number+10000) {
		return p, true
	}
	p.giveBack()
	return port{}, false
}

func (p port) giveBack() { _ = p.lease.Close() }

func (p port) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

func canListen(number int) bool {
	l, err := listen(number)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func listen(number int) (net.Listener, error) { return net.Listen("tcp", port{number: number}.addr()) }
