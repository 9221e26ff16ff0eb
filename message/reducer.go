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

// Channel is the channel of a conversation, a List. What is written to it is read by FromList, and
// added as Add does. What is stored is what LangGraph's Python stores for its messages, so that
// each can go on with a thread of the other, except in the middle of a superstep in which two
// agents inside removed the same messages: Python refuses to remove them twice. A thread of
// JavaScript can be read; what is written to it then, JavaScript cannot read.
//
// newID makes ids for messages without one; nil makes random UUIDs. A write that cannot be read,
// and the removal of a message that is not there, is a channel.UpdateError.
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

// keyIfThere is the key of the AdditionalKwargs of a Remove that does nothing to a message that is not
// there, and after which a message with the same id is a new one.
const keyIfThere = "stele_if_there"

// Since returns what to write to a channel of messages that holds before, a List, if l lacks messages of
// it: the channel holds l then. It is false if l lacks none; then l itself is to be written, which
// changes no order. For what graphs inside write: see graph.Builder.Subgraph. Of messages that others
// write in the same superstep none is lost, so it removes those of before one by one, and none that is
// gone already. Their order is that in which the writes are applied: what another wrote before stands
// in front of l, and what another writes after, that was removed here, comes back behind it.
func (l List) Since(before any) (update any, ok bool) {
	was, isList := before.(List)
	if !isList {
		return nil, false
	}
	stays := make(map[string]bool, len(l))
	for _, m := range l {
		stays[m.ID] = true
	}
	if !slices.ContainsFunc(was, func(m Message) bool { return !stays[m.ID] }) {
		return nil, false
	}
	out := make(List, 0, len(was)+len(l))
	for _, m := range was {
		remove := Remove(m.ID)
		remove.AdditionalKwargs = map[string]any{keyIfThere: true}
		out = append(out, remove)
	}
	return append(out, l...), true
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
	twin := map[int]int{} // the place before of the same id: LangGraph can have stored two
	for i := range merged {
		if before, twice := at[merged[i].ID]; twice {
			twin[i] = before
		}
		at[merged[i].ID] = i
	}
	removed := map[int]bool{}
	remove := func(i int, is bool) {
		removed[i] = is
		for before, twice := twin[i]; twice; before, twice = twin[before] {
			removed[before] = is
		}
	}
	for _, m := range named {
		i, known := at[m.ID]
		ifThere := m.Type == TypeRemove && m.AdditionalKwargs[keyIfThere] == true
		switch {
		case known && m.Type == TypeRemove:
			remove(i, true)
			if ifThere {
				delete(at, m.ID)
			}
		case known:
			remove(i, false)
			merged[i] = m
		case m.Type == TypeRemove && cleared, ifThere: // it is not there
		case m.Type == TypeRemove:
			return nil, &UnknownIDError{ID: m.ID}
		default:
			at[m.ID] = len(merged)
			merged = append(merged, m)
		}
	}
	if len(removed) > 0 {
		kept := make(List, 0, len(merged))
		for i, m := range merged {
			if !removed[i] {
				kept = append(kept, m)
			}
		}
		merged = kept
	}
	if merged == nil {
		merged = List{}
	}
	return merged, nil
}
