// Package lost names the values that damage has cost: by the items that refer to them.
package lost
