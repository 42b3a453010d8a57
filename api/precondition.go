package api

import (
	"net/http"
	"strconv"
	"strings"
)

// versionHeader carries the version that a decision was made on.
const versionHeader = "If-Match"

// expectedVersion reads the version of If-Match, bare or quoted as an ETag. A
// decision is made on one version: lists, weak tags and * are refused.
func expectedVersion(h http.Header) (int, error) {
	values := h[versionHeader]
	if len(values) == 0 || len(values) == 1 && strings.TrimSpace(values[0]) == "" {
		return 0, versionRequired()
	}
	text := strings.TrimSpace(values[0])
	if inner, quoted := strings.CutPrefix(text, `"`); quoted {
		text, quoted = strings.CutSuffix(inner, `"`)
		if !quoted {
			text = ""
		}
	}
	version, err := strconv.ParseUint(text, 10, 31)
	if err != nil || version == 0 || len(values) > 1 {
		return 0, badHeader(ProblemCodeInvalidParameter, versionHeader,
			`The header If-Match is given once and is the version that you read, bare or quoted as the ETag: 7 or "7".`)
	}
	return int(version), nil
}

func versionRequired() error {
	return badHeader(ProblemCodePreconditionRequired, versionHeader, "Say which version of the command you decided on: If-Match with its ETag.")
}

// stale refuses a decision on an older version, and tells the newest.
func stale(version int) *failure {
	return &failure{
		code: ProblemCodePreconditionFailed, version: version,
		detail:  "It has changed since: its version is " + strconv.Itoa(version) + ". Read it again and decide anew.",
		headers: map[string]string{"ETag": strconv.Quote(strconv.Itoa(version))},
	}
}
