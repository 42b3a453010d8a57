package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Limits of the inbound side. Handlers of long polls and event streams move the
// deadlines of their own request; nobody else may be slower than these.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeaderBytes    = 32 << 10

	metricsConnections = 64
)

// httpServer is a listener with its server: opened early, so that a busy port
// ends the start before anything else happened, and served late.
type httpServer struct {
	name     string
	listener net.Listener
	server   *http.Server
}

// listen opens an address for the listener called name, for so many connections at
// a time.
func listen(name, setting, address string, connections int, log *slog.Logger) (*httpServer, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s %s is in use by another program: stop it, or set %s to another address", name, address, setting)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w (%s)", name, err, setting)
	}
	doors := newDoors(l, connections)
	return &httpServer{name: name, listener: doors, server: &http.Server{
		ConnState:         doors.state,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}, nil
}

// url is where the listener can be reached from this machine.
func (s *httpServer) url() string { return "http://" + reachable(s.listener.Addr()) }

// address is what the listener is bound to.
func (s *httpServer) address() netip.AddrPort {
	tcp, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return tcp.AddrPort()
}

// reachable turns an address that means every interface into one to connect to.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
}

// serve answers requests until stop; what ends it earlier goes to failed.
func (s *httpServer) serve(handler http.Handler, failed chan<- error) {
	s.server.Handler = handler
	go func() {
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("%s: %w", s.name, err)
		}
	}()
}

// stop lets the requests under way end, within ctx, and cuts off the rest.
func (s *httpServer) stop(ctx context.Context) error {
	if s == nil {
		return nil
	}
	err := s.server.Shutdown(ctx)
	if err != nil {
		_ = s.server.Close()
		return fmt.Errorf("%s: requests were cut off: %w", s.name, err)
	}
	return nil
}

// shut closes a listener that may never have been served.
func (s *httpServer) shut() {
	if s != nil {
		_ = s.listener.Close()
	}
}
