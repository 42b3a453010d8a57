package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority is a certificate authority of one test.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte // its certificate
	Pool *x509.CertPool
}

// NewAuthority makes a certificate authority that nobody else trusts.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t), Pool: x509.NewCertPool()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testkit"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := a.sign(a.cert, a.key)
	a.cert, _ = x509.ParseCertificate(der)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.Pool.AddCert(a.cert)
	return a
}

// Issue makes a certificate for servers and clients, with these names and
// addresses.
func (a *Authority) Issue(names ...string) tls.Certificate {
	return a.IssueUntil(time.Now().Add(time.Hour), names...)
}

// IssueUntil is Issue with an end, which may have passed.
func (a *Authority) IssueUntil(end time.Time, names ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "testkit"},
		NotBefore: end.Add(-2 * time.Hour), NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key := newKey(a.t)
	return tls.Certificate{Certificate: [][]byte{a.sign(template, key)}, PrivateKey: key}
}

// Pair is a certificate and its key as PEM, for files.
func Pair(t testing.TB, c tls.Certificate) (cert, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
