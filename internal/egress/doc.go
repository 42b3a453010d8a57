// Package egress is what stands between this process and the outside: which
// addresses may be dialled, which credentials go along, and where access tokens
// come from. It knows nothing of commands.
package egress
