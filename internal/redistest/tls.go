package redistest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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
// built without TLS skips the test.
func StartTLSServer(t testing.TB) (server *Server, addr string, config *tls.Config) {
	t.Helper()
	needRedis(t)
	dir := t.TempDir()
	config, err := certificates(dir)
	if err != nil {
		t.Fatal(err)
	}
	var forTLS port
	server, err = launch(func(own string, number int) ([]string, error) { // each try takes another
		if forTLS, err = takePort(); err != nil {
			return nil, err
		}
		t.Cleanup(forTLS.giveBack)
		return alone(
			"--tls-port", strconv.Itoa(forTLS.number), "--tls-auth-clients", "yes",
			"--tls-ca-cert-file", filepath.Join(dir, "cert.pem"),
			"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		)(own, number)
	})
	if err != nil && strings.Contains(err.Error(), "FATAL CONFIG FILE ERROR") {
		t.Skipf("this test needs a Redis that was built with TLS: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	server.own(t)
	return server, forTLS.addr(), config
}

// certificates writes a certificate of its own authority, for both sides, and
// its key, and returns a client's configuration.
func certificates(dir string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var certPEM, keyPEM bytes.Buffer
	if err := pem.Encode(&certPEM, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		return nil, err
	}
	if err := pem.Encode(&keyPEM, &pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"cert.pem": certPEM.Bytes(), "key.pem": keyPEM.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	pair, err := tls.X509KeyPair(certPEM.Bytes(), keyPEM.Bytes())
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM.Bytes())
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
