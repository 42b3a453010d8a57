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
