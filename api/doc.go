// Package api is the REST API: it reads requests strictly, calls the stores and
// writes what they say. openapi.yaml is its source: the types, the interface of
// the server and the table of operations, with the scope that each needs, are
// generated from it.
//
// A handler parses, calls one method, writes, and returns its error; problemFor
// turns every error into an RFC 9457 problem. Bodies of callers and upstreams
// are never decoded: they travel as the bytes they came as.
package api

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml
