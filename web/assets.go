package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/go-chi/chi/v5"
)

//go:embed static/*.js static/*.svg static/css/*.css
var staticFiles embed.FS

// assets are the files that pages name. Each has the sum of its bytes in its path,
// so that browsers keep it and never keep an old one.
type assets struct {
	files map[string][]byte
	paths map[string]string
}

// loadAssets reads them and joins the style sheets into one.
func loadAssets() (*assets, error) {
	a := &assets{files: map[string][]byte{}, paths: map[string]string{}}
	var css bytes.Buffer
	err := fs.WalkDir(staticFiles, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := staticFiles.ReadFile(name)
		if err != nil {
			return err
		}
		if path.Ext(name) == ".css" { // the walk is in the order of the names
			css.Write(body)
			return nil
		}
		a.files[path.Base(name)] = body
		return nil
	})
	a.files["app.css"] = css.Bytes()
	for name, body := range a.files {
		sum := sha256.Sum256(body)
		a.paths[name] = "/static/" + hex.EncodeToString(sum[:8]) + "/" + name
	}
	return a, err
}

// path is where an asset is served. An unknown one ends in an error page and is
// found by the tests.
func (a *assets) path(name string) string {
	if p, ok := a.paths[name]; ok {
		return p
	}
	return "/static/missing/" + name
}

func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "name")
	body, ok := a.files[name]
	if !ok || a.paths[name] != r.URL.Path {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, "There is no such file.")
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}
