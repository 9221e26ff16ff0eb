package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/model"
)

// script is the model: it looks up the weather, mails it to whom the person named, and says so.
func script(_ context.Context, r model.Request) (model.Answer, error) {
	last := r.Messages[len(r.Messages)-1]
	id := fmt.Sprint("call-", len(r.Messages))
	switch last.Name {
	case "weather":
		people := message.Filter(r.Messages, message.FilterOptions{IncludeTypes: []message.Type{message.TypeHuman}})
		for _, name := range []string{"Ada", "Bob", "Eve"} {
			if strings.Contains(people[len(people)-1].Text(), name) {
				return model.Calls(message.ToolCall{Name: "mail", ID: id, Args: map[string]any{"to": name, "text": last.Text()}}), nil
			}
		}
		return model.Text("Whom?"), nil
	case "mail":
		sent := message.Filter(r.Messages, message.FilterOptions{IncludeNames: []string{"mail"}})
		return model.Text(fmt.Sprintf("Done, %s. That makes %d in this chat.", last.Text(), len(sent))), nil
	}
	return model.Calls(message.ToolCall{Name: "weather", ID: id, Args: map[string]any{}}), nil
}

// send is the mail service: a file of what went out. It drops a key that it has seen.
func send(dir, key, mail string) error {
	name := filepath.Join(dir, "sent")
	seen, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.Contains(string(seen), key) {
		name = filepath.Join(dir, "dropped")
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", key, mail)
	return errors.Join(err, f.Close())
}

// outbox reads which mails went out, and how many were dropped.
func outbox(dir string) (sent []string, dropped int, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "sent"))
	if err != nil {
		return nil, 0, err
	}
	for line := range strings.Lines(string(text)) {
		_, mail, _ := strings.Cut(strings.TrimSpace(line), " ")
		sent = append(sent, mail)
	}
	again, err := os.ReadFile(filepath.Join(dir, "dropped"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return sent, strings.Count(string(again), "\n"), err
}
