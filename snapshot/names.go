package snapshot

import (
	"strings"

	"github.com/stele-go/stele/base"
)

const (
	manifestPrefix = "MANIFEST-"
	tempSuffix     = ".tmp"
)

// ManifestName is the name of manifest file num, such as "MANIFEST-000001". Manifest files have
// numbers of their own, which are not those of State.NextFileNum.
func ManifestName(num base.FileNum) string { return manifestPrefix + num.String() }

// IsManifestName reports whether name is that of a manifest file, or of one that was being
// written when its process died ("MANIFEST-000002.tmp").
func IsManifestName(name string) bool {
	_, ok := ParseManifestName(strings.TrimSuffix(name, tempSuffix))
	return ok
}

// ParseManifestName is the inverse of ManifestName. It accepts only what ManifestName produces.
func ParseManifestName(name string) (base.FileNum, bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	if !ok {
		return 0, false
	}
	return base.ParseFileNum(digits)
}

// tempName is the name a manifest is written under until it is complete.
func tempName(num base.FileNum) string { return ManifestName(num) + tempSuffix }

// parseTempName is the inverse of tempName.
func parseTempName(name string) (base.FileNum, bool) {
	stem, ok := strings.CutSuffix(name, tempSuffix)
	if !ok {
		return 0, false
	}
	return ParseManifestName(stem)
}
