package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

var contenders = []string{"plain", "executor"}

var rateOf = regexp.MustCompile(`(\d+) commands/s`)

// apart measures each contender in a process of its own against the same server,
// so that nothing the first leaves in its process is paid for by the second. It
// prints their rows and returns their rates.
func (b *bench) apart(ctx context.Context, part string) ([]float64, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var rates []float64
	for _, name := range contenders {
		cmd := exec.CommandContext(ctx, self, append(os.Args[1:], "-contender", name, "-only", part, "-database", b.url)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fmt.Print(string(out))
		if row := rateOf.FindSubmatch(out); row != nil {
			rate, _ := strconv.ParseFloat(string(row[1]), 64)
			rates = append(rates, rate)
		}
	}
	return rates, nil
}
