package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/studio"
)

// studioCmd serves Studio for a server of LangGraph's API.
func (a *app) studioCmd() *cobra.Command {
	var listen, key string
	var hosts []string
	cmd := &cobra.Command{
		Use: "studio URL", Short: "Show the threads of a LangGraph server in a browser",
		Long: `Show the threads of a LangGraph server in a browser, until a signal ends it: see, compare, fork and answer them.
The page loads nothing from elsewhere. It has no login: it answers on loopback, under the names of this machine
and those of --host.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := url.Parse(args[0])
			if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
				return fmt.Errorf("%q is not the URL of a server, such as http://localhost:2024", args[0])
			}
			header := http.Header{}
			if key != "" {
				header.Set("X-Api-Key", key)
			}
			return a.serveStudio(cmd.Context(), listen, studio.New(studio.Remote(to, header), studio.Options{Hosts: hosts}))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "localhost:2025", "address to answer on")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "further names under which the page may be asked for")
	cmd.Flags().StringVar(&key, "api-key", "", "key that the server asks for, sent as X-Api-Key")
	return cmd
}

// serveStudio serves until ctx ends. What is under way has a moment to end; streams are cut.
func (a *app) serveStudio(ctx context.Context, listen string, h http.Handler) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(a.out, "studio at http://%s\n", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.Shutdown(last); err != nil {
		_ = s.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
