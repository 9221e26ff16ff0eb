package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/server/client"
)

// answerFlags are those of the command answer.
type answerFlags struct {
	value, assistant string
	questions        []string
	timeout          time.Duration
	credentials
}

// serverTokenVariable is the environment variable that has the token for servers of LangGraph's API. That of stele serve,
// tokenVariable, is a secret of another server's.
const serverTokenVariable = "STELE_SERVER_TOKEN"

// credentials are what a server asks for.
type credentials struct{ key, token string }

func (c *credentials) register(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&c.key, "api-key", "", "key that the server at URL asks for, sent as X-Api-Key")
	p.StringVar(&c.token, "token", "", "token that the server at URL asks for, sent as Authorization: Bearer (default: the variable "+serverTokenVariable+")")
}

// header is what requests send.
func (c *credentials) header() http.Header {
	h := http.Header{}
	if c.key != "" {
		h.Set("X-Api-Key", c.key)
	}
	if token := cmp.Or(c.token, strings.TrimSpace(os.Getenv(serverTokenVariable))); token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h
}

func (a *app) answerCmd() *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use: "answer URL THREAD", Short: "Answer what a thread of a running server asks, or list what it asks",
		Long: `Answer what a thread of the server at URL asks, wait for the run that takes the answer, and say what came of it.
Without --value and --question it lists what the thread asks, and changes nothing.

--value answers the only question; --value null passes a breakpoint. --question answers one of several
by its id; those that are left out wait. An agent that asks before its tools run takes
{"decisions": [{"type": "approve"}]}, with one decision for each call: see docs/guide/agents.md.
It works with every server of LangGraph's API.`,
		Example: `  stele answer http://localhost:2024 order-7
  stele answer http://localhost:2024 order-7 --value '{"decisions": [{"type": "approve"}]}'
  stele answer http://localhost:2024 order-7 --question 6a3a9aa8255bf0d6978a4415347ca55e=true`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("name the URL of a server, then the thread")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, end := context.WithTimeout(cmd.Context(), f.timeout)
			defer end()
			err := a.answer(ctx, args[0], args[1], &f, cmd.Flags().Changed("value"))
			return ofServer(err, args[0], args[1], f.timeout)
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.value, "value", "", "the answer to the only question, as JSON")
	p.StringArrayVar(&f.questions, "question", nil, "the answer to the question of an id, as ID=JSON; may be repeated")
	f.register(cmd)
	p.StringVar(&f.assistant, "assistant", "", "the assistant or graph to run (default: the one that ran on the thread last)")
	p.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait for the server, and for the run; the run continues after that")
	return cmd
}

// answered is what stele answer says.
type answered struct {
	Thread string `json:"thread"`
	// Run took the answer; "" if there was none. Ended: it has.
	Run   string `json:"run,omitempty"`
	Ended bool   `json:"ended,omitempty"`
	// Asks are the questions that wait, and At the nodes that are left to run.
	Asks []client.Interrupt `json:"asks"`
	At   []string           `json:"at,omitempty"`
}

func (a *app) answer(ctx context.Context, url, thread string, f *answerFlags, valued bool) error {
	given, err := f.given(valued)
	if err != nil {
		return err
	}
	options := []client.Option{client.WithRetries(0)}
	for name, values := range f.header() {
		options = append(options, client.WithHeader(name, values[0]))
	}
	c, err := client.New(url, options...)
	if err != nil {
		return fmt.Errorf("%q is not the URL of a server, such as http://localhost:2024", url)
	}
	st, err := c.Threads.State(ctx, thread, client.At{})
	if err != nil {
		return err
	}
	out := answered{Thread: thread, Asks: append([]client.Interrupt{}, st.Interrupts...), At: st.Next}
	if valued || len(given) > 0 {
		if err := f.answers(ctx, c, &out, given, valued); err != nil {
			return err
		}
	}
	return a.print(out, func(p *printer) {
		switch {
		case out.Run != "" && !out.Ended:
			p.line("answered; run %s has not ended yet", out.Run)
			return
		case out.Run != "":
			p.line("answered; run %s has ended", out.Run)
		}
		switch {
		case len(out.Asks) == 0 && len(out.At) > 0:
			p.line("thread %s asks nothing; %s is left to run", printable(thread), some(out.At))
		case len(out.Asks) == 0:
			p.line("thread %s asks nothing, and has finished", printable(thread))
		default:
			p.line("thread %s asks", printable(thread))
		}
		for _, q := range out.Asks {
			p.line("  %s  %s", printable(q.ID), visible(string(q.Value)))
		}
		switch len(out.Asks) {
		case 0:
		case 1:
			p.line("answer it by JSON: --value %s", shellWord(exampleFor(out.Asks[0])))
		default:
			p.line("answer them by JSON: --question %s, and so on", shellWord(out.Asks[0].ID+"="+exampleFor(out.Asks[0])))
		}
	})
}

// exampleFor is an answer that a question takes: agent.AskPerson asks about several calls, or, by Review.PerCall, about one.
// Of another question nobody knows what it takes.
func exampleFor(q client.Interrupt) string {
	type allows struct {
		Decisions []string `json:"allowed_decisions"`
	}
	var asked struct {
		Type  string            `json:"type"`
		Calls []json.RawMessage `json:"action_requests"`
		Each  []allows          `json:"review_configs"`
	}
	decision := func(allowed []string) string {
		if len(allowed) > 0 && !slices.Contains(allowed, "approve") {
			return fmt.Sprintf(`{"type": %q}`, allowed[0])
		}
		return `{"type": "approve"}`
	}
	switch err := json.Unmarshal(q.Value, &asked); {
	case err == nil && len(asked.Calls) > 0:
		decisions := make([]string, len(asked.Calls))
		for i := range decisions {
			decisions[i] = decision(slices.Concat(asked.Each, make([]allows, len(decisions)))[i].Decisions)
		}
		return `{"decisions": [` + strings.Join(decisions, ", ") + "]}"
	case err == nil && asked.Type == "tool_approval":
		return decision(nil)
	}
	return `"yes"`
}

// visible is JSON whose runes that are not printed are escaped: a question is often a model's text.
func visible(json string) string {
	var b strings.Builder
	for _, r := range json {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// given are the answers by the ids of their questions; that of --value is under "".
func (f *answerFlags) given(valued bool) (map[string]any, error) {
	if valued && len(f.questions) > 0 {
		return nil, errors.New("give --value for the only question, or --question for each of several")
	}
	given := map[string]any{}
	for _, q := range f.questions {
		id, text, ok := strings.Cut(q, "=")
		if _, twice := given[id]; !ok || id == "" || twice {
			return nil, fmt.Errorf("--question %s: want ID=JSON, once for each id", q)
		}
		v, err := parseJSON(text)
		if err != nil {
			return nil, fmt.Errorf("--question %s: %w", q, err)
		}
		given[id] = v
	}
	if valued {
		v, err := parseJSON(f.value)
		if err != nil {
			return nil, fmt.Errorf(`--value %s: %w. A word is written in quotes: --value '"yes"'`, f.value, err)
		}
		given[""] = v
	}
	return given, nil
}

// answers makes the run that takes the answers, waits for it, and looks what the thread asks then.
func (f *answerFlags) answers(ctx context.Context, c *client.Client, out *answered, given map[string]any, valued bool) error {
	var ids []string
	for _, q := range out.Asks {
		ids = append(ids, q.ID)
	}
	for id := range given {
		if id != "" && !slices.Contains(ids, id) {
			return fmt.Errorf("thread %s asks no question %s; it asks %s", printable(out.Thread), printable(id), cmp.Or(some(ids), "nothing"))
		}
	}
	resume := any(given)
	switch {
	case valued && len(ids) > 1:
		return fmt.Errorf("thread %s asks %d questions: answer them by --question ID=JSON, with the ids %s", printable(out.Thread), len(ids), some(ids))
	case valued && len(ids) == 1:
		resume = map[string]any{ids[0]: given[""]}
	case len(ids) == 0 && len(out.At) == 0:
		return fmt.Errorf("thread %s asks nothing: it has finished, or was never run", printable(out.Thread))
	case len(ids) == 0 && given[""] != nil:
		// A question that comes next would take an answer that is not for it.
		return fmt.Errorf("thread %s asks nothing; %s is left to run. Pass a breakpoint by --value null", printable(out.Thread), some(out.At))
	case len(ids) == 0:
		resume = nil
	}
	req := client.RunRequest{AssistantID: f.assistant, MultitaskStrategy: "reject"}
	if resume != nil {
		req.Command = &client.Command{Resume: resume}
	}
	if req.AssistantID == "" {
		t, err := c.Threads.Get(ctx, out.Thread)
		if err != nil {
			return err
		}
		for _, name := range []string{"assistant_id", "graph_id"} {
			if id, ok := t.Metadata[name].(string); ok && req.AssistantID == "" {
				req.AssistantID = id
			}
		}
		if req.AssistantID == "" {
			return fmt.Errorf("the server does not say which graph thread %s belongs to; name it by --assistant", printable(out.Thread))
		}
	}
	r, err := c.Runs.Create(ctx, out.Thread, req)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("whether the answer arrived is not known: %w. The same command may be given again", err)
	}
	if err != nil {
		return err
	}
	out.Run = r.RunID
	if _, err := c.Runs.Join(ctx, out.Thread, r.RunID); errors.As(err, new(*client.RunError)) {
		return err
	} else if err != nil && ctx.Err() == nil {
		return &takenError{r.RunID, err}
	} else if err != nil {
		return nil // the server has the answer
	}
	st, err := c.Threads.State(ctx, out.Thread, client.At{})
	if err != nil {
		return &takenError{r.RunID, err}
	}
	out.Ended, out.Asks, out.At = true, append([]client.Interrupt{}, st.Interrupts...), st.Next
	return nil
}

// takenError: the server took an answer as a run, and what came of it is not known.
type takenError struct {
	run string
	err error
}

// Error is the cause.
func (e *takenError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *takenError) Unwrap() error { return e.err }

// ofServer says in the words of the shell what a request to a server met.
func ofServer(err error, url, thread string, timeout time.Duration) error {
	var refused *client.Error
	var failed *client.RunError
	var taken *takenError
	switch {
	case errors.As(err, &taken):
		return fmt.Errorf("the answer was taken as run %s, but what came of it is not known: %w. Look by: stele answer %s %s",
			taken.run, taken.err, shellWord(url), shellWord(thread))
	case errors.As(err, &failed):
		return fmt.Errorf("the run failed: %s", failed.Message)
	case errors.Is(err, client.ErrNotFound):
		errors.As(err, &refused)
		return fmt.Errorf("the server at %s has no thread %s, or is no server of agents: %s", url, printable(thread), printable(refused.Detail))
	case errors.Is(err, client.ErrUnauthorized):
		errors.As(err, &refused)
		return fmt.Errorf("the server at %s refuses: %s; name a token by --token or the variable %s, a key by --api-key", url, refused.Detail, serverTokenVariable)
	case errors.As(err, &refused):
		return fmt.Errorf("the server at %s refuses: %s", url, refused.Detail)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s within %s: %w", url, timeout, err)
	case errors.As(err, new(*net.OpError)):
		return fmt.Errorf("nothing answers at %s: %w", url, err)
	}
	return err
}

// reach reports that nothing answers at the URL of a server; nil if something does, whatever it says.
func reach(ctx context.Context, url string) error {
	const most = 3 * time.Second
	ctx, end := context.WithTimeout(ctx, most)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+"/ok", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ofServer(err, url, "", most)
	}
	return resp.Body.Close()
}
