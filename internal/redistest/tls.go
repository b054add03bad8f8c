package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// StartTLSServer starts a server for this test alone that also listens for TLS,
// at addr, and there demands the certificate that is in config. Its other
// address, which [Server.Addr] returns, is without TLS. A redis-server that was
// built without TLS skips the test. The arguments override the defaults.
func StartTLSServer(t testing.TB, args ...string) (server *Server, addr string, config *tls.Config) {
	t.Helper()
	needRedis(t)
	file, config := certificate(t.TempDir())
	number, lease, err := takePort()
	must(err)
	t.Cleanup(func() { _ = lease.Close() })
	port := strconv.Itoa(number)
	server, err = Start(append([]string{
		"--tls-port", port, "--tls-auth-clients", "yes",
		"--tls-ca-cert-file", file, "--tls-cert-file", file, "--tls-key-file", file,
	}, args...)...)
	if err != nil && strings.Contains(err.Error(), "FATAL CONFIG FILE ERROR") {
		t.Skipf("this test needs a Redis that was built with TLS: %v", err)
	}
	must(err)
	t.Cleanup(server.Stop)
	return server, net.JoinHostPort("127.0.0.1", port), config
}

// certificate writes a certificate of its own authority, for both sides, and its
// key into a file, and returns a client's configuration.
func certificate(dir string) (file string, config *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	file = filepath.Join(dir, "pem")
	must(os.WriteFile(file, text, 0o600))
	both, err := tls.X509KeyPair(text, text)
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return file, &tls.Config{Certificates: []tls.Certificate{both}, RootCAs: roots, MinVersion: tls.VersionTLS12}
}
