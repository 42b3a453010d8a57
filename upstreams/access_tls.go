package upstreams

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// tlsConfig builds what a profile says about TLS: whom to trust, as whom to
// appear, and which name to expect. read opens the files it names.
func tlsConfig(p *Profile, read func(name string) ([]byte, error)) (*tls.Config, error) {
	config := &tls.Config{ServerName: p.TLS.ServerName}
	if p.TLS.CAFile != "" {
		pem, err := read(p.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no PEM certificate", p.TLS.CAFile)
		}
	}
	if p.TLS.CertFile == "" && p.TLS.KeyFile == "" {
		return config, nil
	}
	pair, err := keyPair(p.TLS, read)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

func keyPair(t TLS, read func(name string) ([]byte, error)) (tls.Certificate, error) {
	cert, err := read(t.CertFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls.cert_file: %w", err)
	}
	key, err := read(t.KeyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls.key_file: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
	}
	return pair, nil
}

// tokenTLS trusts whom the upstream's own connections trust; the name to expect
// is the token endpoint's.
func tokenTLS(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.ServerName = ""
	return config
}
