// Command chat is a conversation in the terminal with a real model. It asks before it sends a mail,
// keeps everything in a directory, and goes on from there, also after it was killed.
//
//	export ANTHROPIC_API_KEY=…   # or OPENAI_API_KEY, or GEMINI_API_KEY; OPENAI_BASE_URL for a server of one's own
//	go run ./examples/chat
//	go run ./examples/chat -model qwen3 -mcp "my-mcp-server -flag"
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/providers/anthropic"
	"github.com/stele-go/stele/agent/providers/genai"
	"github.com/stele-go/stele/agent/providers/mcp"
	"github.com/stele-go/stele/agent/providers/openai"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func main() {
	dir := flag.String("dir", "stele-chat", "where the conversation is kept")
	name := flag.String("model", "", "name of the model")
	server := flag.String("mcp", "", "command of an MCP server, whose tools the agent gets")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *name, *server, os.Stdin, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pick is the model for which there is a key.
func pick(ctx context.Context, name string) (model.Model, error) {
	switch {
	case os.Getenv("ANTHROPIC_API_KEY") != "":
		return anthropic.New(anthropic.Options{Model: cmp.Or(name, "claude-sonnet-4-5")})
	case os.Getenv("OPENAI_API_KEY") != "" || os.Getenv("OPENAI_BASE_URL") != "":
		return openai.New(openai.Options{Model: cmp.Or(name, "gpt-5-mini")})
	case os.Getenv("GEMINI_API_KEY") != "":
		return genai.New(ctx, genai.Options{Model: cmp.Or(name, "gemini-2.5-flash")})
	}
	return nil, errors.New("set ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL or GEMINI_API_KEY; without any, try go run ./examples/agent")
}

func run(ctx context.Context, dir, name, server string, in io.Reader, out io.Writer) error {
	m, err := pick(ctx, name)
	if err != nil {
		return err
	}
	tools := []tool.Tool{}
	if command := strings.Fields(server); len(command) > 0 {
		s, err := mcp.Connect(ctx, mcp.Command(command[0], command[1:]...), mcp.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		if tools, err = s.Tools(ctx); err != nil {
			return err
		}
	}
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	g, err := build(m, d, filepath.Join(dir, "..", filepath.Base(dir)+".mails"), tools)
	if err != nil {
		return err
	}
	return chat(ctx, g, bufio.NewScanner(in), out)
}

// build makes the agent. Its mails are files in a directory, named by their keys, so that none is
// sent twice.
func build(m model.Model, s saver.Saver, mails string, tools []tool.Tool) (*pregel.Graph, error) {
	now, err := tool.New("now", "Tells the time.", tool.Unchecked(`{"type":"object","properties":{}}`),
		func(context.Context, struct{}) (string, error) { return time.Now().Format(time.RFC1123), nil })
	if err != nil {
		return nil, err
	}
	mail, err := tool.New("mail", "Sends a mail.",
		tool.Unchecked(`{"type":"object","properties":{"to":{"type":"string"},"text":{"type":"string"}},"required":["to","text"]}`),
		func(ctx context.Context, in struct{ To, Text string }) (string, error) {
			key, err := tool.IdempotencyKey(ctx)
			if err != nil {
				return "", err
			}
			err = os.MkdirAll(mails, 0o755)
			return "sent to " + in.To, errors.Join(err, os.WriteFile(filepath.Join(mails, key), []byte(in.To+": "+in.Text+"\n"), 0o644))
		})
	if err != nil {
		return nil, err
	}
	return agent.New(m, agent.Options{
		System:     "You are a helpful assistant in a terminal. Be brief.",
		Tools:      append(tools, now, mail),
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"mail": {}}})},
		Graph:      graph.Options{Saver: s},
	})
}

// chat goes on from whatever the last process left: a question, an unfinished run, or the next thing
// that the person says.
func chat(ctx context.Context, g *pregel.Graph, person *bufio.Scanner, out io.Writer) error {
	at := pregel.Thread("chat")
	for {
		state, err := g.GetState(ctx, at)
		if err != nil {
			return err
		}
		var input any // nil goes on with what a crash left
		switch {
		case len(state.Interrupts) > 0:
			review, err := channel.Convert[agent.ReviewRequest](state.Interrupts[0].Value)
			if err != nil {
				return err
			}
			var answer agent.ReviewAnswer
			for _, a := range review.Actions {
				fmt.Fprintf(out, "\n%s %v? y, or why not: ", a.Name, a.Args)
				if !person.Scan() {
					return person.Err()
				}
				decision := agent.Decision{Type: agent.Approve}
				if said := person.Text(); said != "y" {
					decision = agent.Decision{Type: agent.Reject, Message: said}
				}
				answer.Decisions = append(answer.Decisions, decision)
			}
			input = pregel.Command{Resume: answer}
		case state.Status != saver.StatusUnfinished && state.Status != saver.StatusFailed:
			fmt.Fprint(out, "\n> ")
			if !person.Scan() {
				return person.Err()
			}
			input = agent.Say(person.Text())
		}
		for e, err := range g.Stream(ctx, at, input, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
			if err != nil {
				return err
			}
			if part, ok := e.Data.(pregel.MessageEvent).Message.(message.Chunk); ok {
				fmt.Fprint(out, part.Text())
			}
		}
	}
}
