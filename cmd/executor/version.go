package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by a release build through -ldflags "-X main.version=v1.2.3".
var version = ""

// build is what the binary knows of its own making.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the source differed from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
		if b.Version == "" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "dev"
	}
	return b
}

func newVersionCommand() *cobra.Command {
	var out format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: "  executor version\n  executor version --output json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := readBuild()
			if out == formatJSON {
				return writeJSON(cmd.OutOrStdout(), b)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "executor %s", b.Version)
			if b.Revision != "" {
				fmt.Fprintf(cmd.OutOrStdout(), " (%.12s)", b.Revision)
			}
			fmt.Fprintf(cmd.OutOrStdout(), " %s %s\n", b.Go, b.Platform)
			return nil
		},
	}
	addOutput(cmd, &out)
	return cmd
}
