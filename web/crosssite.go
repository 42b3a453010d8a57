package web

import (
	"html/template"
	"net/http"
)

// The session's cookie is SameSite=Strict: browsers leave it out of whatever comes
// from another site, also where somebody only follows a link from their mail. Such a
// visitor gets a page that asks for the same address again, this time from here.

// fromElsewhere reports whether a page of another site led here. Browsers that do
// not say so are led to the sign-in.
func (v *visit) fromElsewhere() bool {
	h := v.r.Header
	return v.r.Method == http.MethodGet && h.Get("Sec-Fetch-Site") == "cross-site" && h.Get("Sec-Fetch-Mode") == "navigate" &&
		h.Get("Sec-Fetch-Dest") == "document"
}

var again = template.Must(template.New("again").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0;url={{.}}">
<title>executor</title>
<p><a href="{{.}}">Go on</a></p>
</html>
`))

// askAgain leads to the same address from a page of our own.
func (v *visit) askAgain() error {
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return again.Execute(v.w, localPath(v.r.URL.RequestURI()))
}

// foreign answers a form that no page of ours sent, whoever is signed in: without
// their session, so that it does not even count as used.
func (s *Server) foreign() http.Handler {
	page := s.cookies.LoadAndSave(s.handler(route{serve: func(*Server, *visit) error {
		return &failure{http.StatusForbidden, "Sent from somewhere else", "This form does not come from a page of this address, so nothing was done. " +
			"If it does, either it was opened by plain http, or the proxy in front does not pass Host on as the browser sent it: tell whoever runs it."}
	}}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Del("Cookie")
		page.ServeHTTP(w, r)
	})
}
