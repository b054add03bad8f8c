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
	cert, key, config, err := certificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var forTLS port
	server, err = launch(func(own string, number int) ([]string, error) { // each try takes another
		if forTLS, err = takePort(); err != nil {
			return nil, err
		}
		t.Cleanup(forTLS.giveBack)
		return alone(append([]string{
			"--tls-port", strconv.Itoa(forTLS.number), "--tls-auth-clients", "yes",
			"--tls-ca-cert-file", cert, "--tls-cert-file", cert, "--tls-key-file", key,
		}, args...)...)(own, number)
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

// certificate writes a certificate of its own authority, for both sides, and its
// key into files, and returns a client's configuration.
func certificate(dir string) (certFile, keyFile string, config *tls.Config, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", "", nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", nil, err
	}
	write := func(kind string, der []byte) (file string) {
		file = filepath.Join(dir, kind)
		if err == nil {
			err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		return file
	}
	certFile, keyFile = write("CERTIFICATE", cert), write("PRIVATE KEY", private)
	roots := x509.NewCertPool()
	if own, problem := x509.ParseCertificate(cert); problem == nil {
		roots.AddCert(own)
	}
	return certFile, keyFile, &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		RootCAs:      roots, MinVersion: tls.VersionTLS12,
	}, err
}
