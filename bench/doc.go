// Command bench compares the executor with a plain River worker that does the
// least anybody would do by hand: write an attempt row, do the same POST, update
// two rows. Both run in one process against one PostgreSQL with its durability
// on and one upstream on loopback, one after the other, so that their figures can
// be compared as ratios. Absolute figures say more about the machine.
//
//	go run ./bench               throughput, latency and isolation
//	go run ./bench -seconds 20   longer rounds
//	go run ./bench -only reads   what the dashboard's reads take with a million commands
package main
