package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel/killtest"
)

// texts is the schema of an object of texts.
func texts(names ...string) tool.Schema {
	return tool.Unchecked(`{"type":"object","properties":{"` + strings.Join(names, `":{"type":"string"},"`) + `":{"type":"string"}}}`)
}

var asked atomic.Bool

// script is the model. It mails what it is told to the people whom it has noted, and notes it of
// others. The first time that it is asked in a process, it is busy.
func script(_ context.Context, r model.Request) (model.Answer, error) {
	system, last := r.Messages[0].Text(), r.Messages[len(r.Messages)-1]
	if !asked.Swap(true) {
		return model.Fail(errors.New("busy")), nil
	}
	if last.Type == message.TypeTool {
		return model.Text("Done: " + last.Text() + "."), nil
	}
	var calls []message.ToolCall
	who, what, _ := strings.Cut(last.Text(), ": ")
	for name := range strings.SplitSeq(who, " and ") {
		call := message.ToolCall{ID: fmt.Sprint(len(r.Messages), name), Name: "note", Args: map[string]any{"who": name, "fact": what}}
		if strings.Contains(system, "\n"+name+": ") {
			call.Name, call.Args = "mail", map[string]any{"to": name, "body": what}
		}
		calls = append(calls, call)
	}
	return model.Calls(calls...), nil
}

// outbox is the directory of the mail service.
var outbox string

// send is the mail service: a mail that went out is a file named by its key, so that the same key
// makes no second mail.
func send(key, mail string) error {
	err := os.MkdirAll(outbox, 0o755)
	err = errors.Join(err, os.WriteFile(filepath.Join(outbox, key), []byte(mail), 0o644))
	killtest.Point() // it went out, and nobody knows
	return err
}

// check says what is wrong with the mails that went out.
func check(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "sent", "*"))
	var sent []string
	for _, name := range files {
		text, rerr := os.ReadFile(name)
		sent, err = append(sent, string(text)), errors.Join(err, rerr)
	}
	slices.Sort(sent)
	if want := "Ada: I am ill, Ada: Lunch?, Bob: I am ill"; strings.Join(sent, ", ") != want {
		err = errors.Join(err, fmt.Errorf("the mails that went out: %q, want %s", sent, want))
	}
	return err
}
