package saver

import "errors"

// ErrLost is returned for a value that damage had destroyed when the store was
// salvaged. It comes with ErrCorrupt: a checkpoint that lost a channel must not pass
// for one that never had it.
var ErrLost = errors.New("the value was lost before the store was salvaged")

// kindLost is the kind of what stands for a lost value; its data says why.
const kindLost = "stele.lost"

// LostValue returns what a store keeps in place of a value that could not be
// salvaged, for package saver/admin. Reading it gives ErrLost with the reason.
func LostValue(reason string) []byte { return append(kindPrefix(kindLost), reason...) }
