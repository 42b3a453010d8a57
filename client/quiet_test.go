package client

import (
	"io"
	"log"
)

// quiet swallows what a test's server complains about.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
