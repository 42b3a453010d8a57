package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"executor/internal/simulator"
)

const simulatorLong = `An upstream for your own tests. Each request says, in its header Sim-Behavior or in
the member "sim" of its body, what shall go wrong: the effect, the answer, the
connection, or their order. A ledger tells what really arrived and what happened.

It keeps everything in memory and asks for no credentials: leave it on loopback.`

func newSimulatorCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:     "simulator",
		Short:   "Run an upstream that commits, drops, stalls and lies on request",
		Long:    simulatorLong,
		Example: "  executor simulator\n  executor simulator --listen 127.0.0.1:0",
		Args:    args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSimulator(cmd, listen) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9911", "address to listen on")
	return cmd
}

// runSimulator serves until the command's context ends, which is no error.
func runSimulator(cmd *cobra.Command, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	fmt.Fprintf(cmd.OutOrStdout(), "Simulator listening on %s\n\n%s", url, simulator.Help(url))
	sim := simulator.New(simulator.Config{})
	served := make(chan error, 1)
	go func() { served <- sim.Serve(l) }()
	select {
	case err = <-served:
	case <-cmd.Context().Done():
	}
	_ = sim.Close()
	return err
}
