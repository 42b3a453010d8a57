package main

import (
	"os"
	"os/user"
)

// actor names the person at this command line, for what is kept of their deed.
func actor() string {
	name := "somebody"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		name += "@" + host
	}
	return name
}
