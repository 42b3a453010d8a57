// Package commands owns the command: how it is accepted, read, cancelled and
// moved from state to state. Store.Move is the only writer of a state, and
// Store.Learn the one door for knowledge that comes by another way than an
// attempt's own finish.
package commands
