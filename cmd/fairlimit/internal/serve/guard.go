package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// contentSecurity lets the page load nothing but itself and talk to nobody but
// this server. The hashes of its script and its style are added.
const contentSecurity = "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// guarded keeps out what no caller sends: requests of other web sites, and those
// with a body.
func (s *Server) guarded(addr net.Addr, next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	loopback := s.Token == "" && isLoopback(addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &counted{ResponseWriter: w, server: s}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", contentSecurity)
		h.Set("Referrer-Policy", "no-referrer")
		control := http.NewResponseController(w)
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case loopback && !isLocal(r.Host):
			s.fail(counted, r, refusal{http.StatusMisdirectedRequest, "the Host is not this machine"})
		case origin.Check(r) != nil, site == "cross-site" && r.URL.Path != "/":
			s.fail(counted, r, refusal{http.StatusForbidden, "a request of another web site"})
		case hasBody(control, r):
			h.Set("Connection", "close")
			s.fail(counted, r, misused("a body: parameters belong into the query"))
		default:
			next.ServeHTTP(counted, r)
		}
	})
}

// hasBody reads the body, which has to be empty. Only then a connection tells
// that its client has gone.
func hasBody(control *http.ResponseController, r *http.Request) bool {
	if r.ContentLength == 0 {
		return false
	}
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	if n, err := r.Body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return true
	}
	_ = control.SetReadDeadline(time.Time{})
	return false
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// isLocal reports whether a Host names this machine. A name of somebody else's
// that leads here is a web site's way to get at servers like this one.
func isLocal(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || net.ParseIP(name).IsLoopback()
}

// authorized compares the token in constant time.
func (s *Server) authorized(route route, r *http.Request) error {
	if s.Token == "" || route.kind == open {
		return nil
	}
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	want, got := sha256.Sum256([]byte(s.Token)), sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return refusal{http.StatusUnauthorized, "want the token: Authorization: Bearer ..."}
	}
	return nil
}
