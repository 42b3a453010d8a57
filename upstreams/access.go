package upstreams

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"executor/internal/egress"
)

// Access finds what a request to an upstream needs and no row holds: the
// credential, and the files of the profile's tls section. It is safe for
// concurrent use.
type Access struct {
	secrets *egress.Secrets
	tokens  *egress.Tokens
}

// NewAccess makes an Access. tokens serves upstreams with
// oauth2_client_credentials.
func NewAccess(secrets *egress.Secrets, tokens *egress.Tokens) *Access {
	return &Access{secrets, tokens}
}

// Credential authorises one request.
type Credential struct {
	Headers []Header        // to be added; never stored or shown
	Secrets []egress.Secret // what must not be kept of an answer that echoes it

	token    egress.Secret // the access token, if it is one
	tokenKey string        // "" = no token was asked for
}

// IsToken says whether an access token was asked for, and not a fixed credential.
func (c Credential) IsToken() bool { return c.tokenKey != "" }

// Credential finds the credential of an upstream. renew asks for another access
// token than the one at hand, because that one was refused. A missing secret is
// egress.ErrMissing: it can mend itself. A token endpoint that fails is an
// *egress.TokenError. The Credential counts also beside an error, for its Secrets.
func (a *Access) Credential(ctx context.Context, p *Profile, upstreamID int64, renew bool) (Credential, error) {
	var c Credential
	err := c.find(ctx, a, p, upstreamID, renew)
	return c, err
}

func (c *Credential) find(ctx context.Context, a *Access, p *Profile, upstreamID int64, renew bool) error {
	switch auth := p.Auth; auth.Type {
	case AuthBearer:
		token, err := a.carried(auth, auth.Token)
		return c.authorization("Bearer ", token, err)
	case AuthBasic:
		user, err := a.reference(auth.Username)
		if err != nil {
			return err
		}
		password, err := a.secrets.Lookup(auth.Password)
		c.Secrets = append(c.Secrets, password)
		if isReference(auth.Username) {
			c.Secrets = append(c.Secrets, user)
		}
		pair := user.Reveal() + ":" + password.Reveal()
		return c.authorization("Basic ", egress.NewSecret(base64.StdEncoding.EncodeToString([]byte(pair))), err)
	case AuthHeader:
		value, err := a.carried(auth, auth.Value)
		if err != nil {
			return err
		}
		c.Secrets = append(c.Secrets, value)
		c.Headers = []Header{{auth.Name, value.Reveal()}}
		return nil
	case AuthOAuth2:
		err := c.fetch(ctx, a, p, upstreamID, renew)
		return c.authorization("Bearer ", c.token, err)
	default:
		return nil
	}
}

// carried looks up a secret that goes into a header as it is. One that none can carry is
// as good as missing: whoever wrote it can mend it.
func (a *Access) carried(auth Auth, ref string) (egress.Secret, error) {
	secret, err := a.secrets.Lookup(ref)
	if err != nil {
		return secret, err
	}
	if why := auth.Unfit(ref, secret); why != "" {
		return egress.Secret{}, fmt.Errorf("%s: %w: it %s", ref, egress.ErrMissing, why)
	}
	return secret, nil
}

// Unfit says why a secret cannot be used as the profile uses it; "" is nothing.
func (a Auth) Unfit(ref string, secret egress.Secret) string {
	if (ref == a.Token || ref == a.Value) && strings.ContainsFunc(secret.Reveal(), func(c rune) bool { return c < ' ' && c != '\t' || c == '\x7f' }) {
		return "holds a line end or another control character, which no header can carry"
	}
	return ""
}

func (c *Credential) authorization(scheme string, credential egress.Secret, err error) error {
	if err != nil {
		return err
	}
	c.Secrets = append(c.Secrets, credential)
	c.Headers = []Header{{"Authorization", scheme + credential.Reveal()}}
	return nil
}

// fetch gets the upstream's access token. If it is to be another one, it makes
// sure of that, whichever process saw the refusal.
func (c *Credential) fetch(ctx context.Context, a *Access, p *Profile, upstreamID int64, renew bool) error {
	id, err := a.reference(p.Auth.ClientID)
	if err != nil {
		return err
	}
	secret, err := a.secrets.Lookup(p.Auth.ClientSecret)
	if err != nil {
		return err
	}
	config, err := a.files(p) // for an http base URL too: the token endpoint is another one
	if err != nil {
		return err
	}
	c.tokenKey = strconv.FormatInt(upstreamID, 10)
	r := egress.TokenRequest{
		Key: c.tokenKey, URL: p.Auth.TokenURL, ClientID: id, ClientSecret: secret, Scopes: p.Auth.Scopes,
		Allow: p.Egress.Allow, Proxy: p.Egress.Proxy, TLS: tokenTLS(config),
	}
	c.token, err = a.tokens.Token(ctx, r)
	if err == nil && renew {
		a.tokens.Invalidate(c.tokenKey, c.token)
		c.token, err = a.tokens.Token(ctx, r)
	}
	return err
}

// Refused drops an access token that the upstream answered with 401, so that the
// next request gets another one. Of a fixed credential it changes nothing.
func (a *Access) Refused(c Credential) {
	if c.IsToken() {
		a.tokens.Invalidate(c.tokenKey, c.token)
	}
}

// reference resolves a value that may be given as it is or as a reference.
func (a *Access) reference(value string) (egress.Secret, error) {
	if strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:") {
		return a.secrets.Lookup(value)
	}
	return egress.NewSecret(value), nil
}

// TLS builds what the profile says about TLS; nil for an http base URL. A file
// that cannot be read is egress.ErrMissing.
func (a *Access) TLS(p *Profile) (*tls.Config, error) {
	if p.Base.Scheme != "https" {
		return nil, nil
	}
	return a.files(p)
}

func (a *Access) files(p *Profile) (*tls.Config, error) {
	config, err := tlsConfig(p, a.readFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", egress.ErrMissing, err)
	}
	return config, nil
}

// readFile opens what a profile's tls section names.
func (a *Access) readFile(name string) ([]byte, error) {
	if strings.HasPrefix(name, "file:") {
		s, err := a.secrets.Lookup(name)
		return []byte(s.Reveal()), err
	}
	return os.ReadFile(name)
}
