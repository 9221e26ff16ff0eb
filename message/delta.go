package message

import (
	"slices"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
)

// DeltaChannel is Channel as a channel.Delta: checkpoints store the messages that were written, not
// the whole conversation. It is LangGraph's DeltaChannel with its reducer for messages. A message
// with a known id replaces the old one. A removal removes one, and a removal of an unknown id does
// nothing. A removal of RemoveAllID removes all that is before it. newID is that of Channel, and
// frequency that of channel.Delta.
func DeltaChannel(frequency int, newID func() string) channel.Channel {
	if newID == nil {
		newID = channel.NewMessageID
	}
	name := func(write any) any {
		if ow, ok := serde.AsOverwrite(write); ok {
			return serde.Overwrite{Value: withIDs(ow.Value, newID)}
		}
		return withIDs(write, newID)
	}
	return channel.DeltaAccepted(frequency, fold, accepts, name)
}

// accepts says why what is written is no messages.
func accepts(write any) error {
	_, err := FromList(write)
	return err
}

// withIDs is what is written as messages with ids. What is none stays as it is, so that the reducer
// refuses it.
func withIDs(write any, newID func() string) any {
	list, err := FromList(write)
	if err != nil || write == nil {
		return write
	}
	named := slices.Clone(List(list))
	for i := range named {
		if named[i].ID == "" {
			named[i].ID = newID()
		}
	}
	return named
}

// fold is the reducer of DeltaChannel.
func fold(state List, writes []any) (List, error) {
	return channel.FoldByID(state, writes, FromList, func(m Message) (string, bool) { return m.ID, m.Type == TypeRemove })
}
