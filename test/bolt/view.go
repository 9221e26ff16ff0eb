package bolt

import "github.com/stele-go/stele/saver/rules"

// view reads a namespace for the rules of removals.
func (n *space) view() (rules.SpaceView, error) {
	all := rules.SpaceView{}
	for _, id := range n.ids() {
		cp, err := n.checkpoint(id)
		if err != nil {
			return nil, err
		}
		calls, err := n.calls(id)
		if err != nil {
			return nil, err
		}
		v := &rules.CheckpointView{V: cp.V, TS: cp.TS, Parent: cp.Parent, Note: cp.Note, Metadata: int64(len(cp.Metadata.Data)), Slots: map[string]rules.ValueView{}, Calls: calls}
		for channel, sl := range cp.Slots {
			v.Slots[channel] = rules.ValueView{}
			if sl.isFilled() {
				v.Slots[channel] = rules.ValueView{ID: sl.Number, Bytes: int64(sl.Size)}
			}
		}
		all[id] = v
	}
	return all, nil
}
