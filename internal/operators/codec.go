package operators

import (
	"encoding/json"
	"fmt"
	"time"
)

// Keys of a session's values. Start sets them.
const (
	KeyOperator  = "operator_id"
	KeyEpoch     = "operator_epoch" // Operator.Epoch in decimal
	KeyAddress   = "address"        // where the sign-in came from
	KeyUserAgent = "user_agent"
)

// Codec writes a session's values as JSON, the same values always in the same
// bytes: an unchanged session is not written anew. Values are strings.
type Codec struct{}

type encoded struct {
	Deadline time.Time         `json:"deadline"`
	Values   map[string]string `json:"values"`
}

// Encode implements scs.Codec.
func (Codec) Encode(deadline time.Time, values map[string]any) ([]byte, error) {
	texts := make(map[string]string, len(values))
	for key, value := range values {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("a session's value %s is a %T: only strings are kept", key, value)
		}
		texts[key] = text
	}
	return json.Marshal(encoded{deadline, texts})
}

// Decode implements scs.Codec.
func (Codec) Decode(data []byte) (time.Time, map[string]any, error) {
	var e encoded
	if err := json.Unmarshal(data, &e); err != nil {
		return time.Time{}, nil, fmt.Errorf("read a session: %w", err)
	}
	values := make(map[string]any, len(e.Values))
	for key, text := range e.Values {
		values[key] = text
	}
	return e.Deadline, values, nil
}
