package webhooks_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// parallel is how many tests run at once: most of them wait for others.
const parallel = 6

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0))))
	}
	m.Run()
}
