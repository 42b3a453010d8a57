package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// inside tells the test's second process that its network is its own.
const inside = "EXECUTOR_TEST_OWN_NETWORK"

// ProxyVariables name a proxy that nothing may use. A test sets them for its
// process.
func proxyVariables() []string {
	var list []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		list = append(list, name+"=http://127.0.0.1:8080")
	}
	return append(list, "NO_PROXY=", "no_proxy=")
}

// Run runs a test in a process of its own, whose network is its own and where
// every address of the world is this machine: whatever is dialled meets a trap.
// The environment names a proxy. Without the right to such a network the test runs
// where it is, with traps on loopback, and says so.
func Run(t *testing.T, test func(t *testing.T, traps *Traps)) {
	t.Helper()
	if os.Getenv(inside) == "" && apart(t) {
		return
	}
	alone := os.Getenv(inside) != ""
	if alone {
		if err := everywhere(); err != nil {
			t.Fatalf("%s: %v", refused, err)
		}
	}
	traps := newTraps(t, alone)
	if err := traps.check(); err != nil {
		t.Fatal(err)
	}
	test(t, traps)
}

// refused is what a process says that may not set its network up.
const refused = "no network of its own"

// apart runs the test in the other process, and says whether that could be done.
func apart(t *testing.T) bool {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v=true")
	cmd.Env = append(append(os.Environ(), proxyVariables()...), inside+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(out), "--- PASS: "+t.Name()):
		return true
	case cmd.ProcessState == nil, strings.Contains(string(out), refused):
		t.Logf("traps on loopback only, because this process gets no network of its own: %v\n%s", err, out)
		for _, variable := range proxyVariables() {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
		}
		return false
	default:
		t.Errorf("in a network of its own: %v\n%s", err, out)
		return true
	}
}

// everywhere makes every address an address of this machine.
func everywhere() error {
	for _, command := range []string{
		"link set lo up", "addr add 169.254.169.254/32 dev lo", "addr add fe80::1/64 dev lo nodad",
		"route add local 0.0.0.0/0 dev lo", "-6 route add local ::/0 dev lo",
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return nil
}

// opened counts the TCP connections that this network's programs have dialled,
// whatever became of them.
func (t *Traps) opened() int {
	if !t.alone {
		return 0
	}
	text, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		t.t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] != "Tcp:":
		case names == nil:
			names = fields
		default:
			for i, name := range names {
				if name == "ActiveOpens" {
					n, _ := strconv.Atoi(fields[i])
					return n
				}
			}
		}
	}
	t.t.Fatal("the kernel does not count connections")
	return 0
}
