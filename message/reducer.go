package message

import (
	"fmt"
	"slices"

	"github.com/stele-go/stele/pregel/channel"
)

// List is a conversation. A field of a graph's state that is a List is kept in the channel that
// Channel returns, if the state's schema is made of a struct.
type List []Message

// Channel implements channel.Declared.
func (List) Channel() channel.Channel { return Channel(nil) }

// State is a state that is a conversation, to embed in one's own:
//
//	type State struct {
//		message.State
//		Topic string `json:"topic"`
//	}
//
// Its key is that of LangGraph's MessagesState.
type State struct {
	Messages List `json:"messages"`
}

// Channel is the channel of a conversation, a List. What is written to it is read by FromList,
// and added as Add does. What is stored is what LangGraph's Python stores for its messages, so
// that each can go on with a thread of the other. A thread of JavaScript can be read; what is
// written to it then, JavaScript cannot read.
//
// newID makes ids for messages without one; nil makes random UUIDs. A write that cannot be
// read, and the removal of a message that is not there, is a channel.UpdateError.
func Channel(newID func() string) channel.Channel {
	if newID == nil {
		newID = channel.NewMessageID
	}
	return channel.FoldAccepted(func(left List, right any) (List, error) {
		list, err := FromList(right)
		if err != nil {
			return nil, err
		}
		return add(left, list, newID)
	}, accepts)
}

// UnknownIDError: a message to remove is not in the list.
type UnknownIDError struct{ ID string }

// Error names the id.
func (e *UnknownIDError) Error() string {
	return fmt.Sprintf("Attempting to delete a message with an ID that doesn't exist ('%s')", e.ID)
}

// Add merges right into left by id, as LangGraph's add_messages: a message with a new id is
// appended, one with a known id takes the place of the old one, and a Remove takes the message
// with its id out, or, with RemoveAllID, all that stand before it. It returns a new list and
// changes neither. Messages without an id get a random UUID. The removal of an unknown id is an
// *UnknownIDError, unless all are removed before it. What follows a removal of all is added to an
// empty list, so that no two have one id and no Remove stays; LangGraph takes it as it is.
func Add(left, right []Message) ([]Message, error) {
	return add(left, right, channel.NewMessageID)
}

func add(left, right []Message, newID func() string) (List, error) {
	named := slices.Clone(right)
	merged := slices.Grow(slices.Clone(List(left)), len(right))
	for _, list := range [][]Message{merged, named} {
		for i := range list {
			if list[i].ID == "" {
				list[i].ID = newID()
			}
		}
	}
	cleared := false
	for i, m := range slices.Backward(named) {
		if m.Type == TypeRemove && m.ID == RemoveAllID {
			merged, named, cleared = List{}, named[i+1:], true
			break
		}
	}
	at := make(map[string]int, len(merged)+len(named))
	for i := range merged {
		at[merged[i].ID] = i
	}
	removed := map[string]bool{}
	for _, m := range named {
		i, known := at[m.ID]
		switch {
		case known && m.Type == TypeRemove:
			removed[m.ID] = true
		case known:
			delete(removed, m.ID)
			merged[i] = m
		case m.Type == TypeRemove && cleared: // it is not there
		case m.Type == TypeRemove:
			return nil, &UnknownIDError{ID: m.ID}
		default:
			at[m.ID] = len(merged)
			merged = append(merged, m)
		}
	}
	if len(removed) > 0 {
		merged = slices.DeleteFunc(merged, func(m Message) bool { return removed[m.ID] })
	}
	if merged == nil {
		merged = List{}
	}
	return merged, nil
}
