package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"os"
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
	own := s.ownHosts(addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", contentSecurity)
		h.Set("Referrer-Policy", "no-referrer")
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case !own(r.Host):
			s.answer(w, r, nil, refusal{
				http.StatusMisdirectedRequest,
				"the Host is not a name of this server: ask by its address, or give it a token",
			})
		case origin.Check(r) != nil, site == "cross-site" && r.URL.Path != "/":
			s.answer(w, r, nil, refusal{http.StatusForbidden, "a request of another web site"})
		case r.ContentLength != 0:
			h.Set("Connection", "close") // so the answer does not wait for the body
			s.answer(w, r, nil, misused("a body: parameters belong into the query"))
		default:
			// There is nothing more to read, and a turn may take its time.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			next.ServeHTTP(w, r)
		}
	})
}

// ownHosts reports whether a Host is this server's. A name of somebody else's
// that leads here is a web site's way to get at servers like this one. It has a
// dot, and is no address. A token keeps such a site out, and so does a socket.
func (s *Server) ownHosts(addr net.Addr) func(host string) bool {
	tcp, isTCP := addr.(*net.TCPAddr)
	if s.Token != "" || !isTCP {
		return func(string) bool { return true }
	}
	machine, _ := os.Hostname()
	return func(host string) bool {
		name := nameOf(host)
		if name == "localhost" || strings.HasSuffix(name, ".localhost") || net.ParseIP(name).IsLoopback() {
			return true
		}
		return !tcp.IP.IsLoopback() && name != "" && (!strings.Contains(name, ".") || net.ParseIP(name) != nil ||
			strings.EqualFold(name, machine) || strings.EqualFold(name, s.Host))
	}
}

// nameOf is a Host without its port.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
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
