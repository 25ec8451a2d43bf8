package runtime

import (
	"strings"
	"testing"
)

func TestErrorsDoNotShowSecrets(t *testing.T) {
	for name, text := range map[string]string{
		"in an option":                  `CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', password = 'hunter2', strem = 'S')`,
		"in an option that is misspelt": `CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', pasword = 'hunter2', stream = 'S')`,
		"behind a forgotten sign":       `CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', token 'hunter2')`,
		"in an address":                 `CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', url = 'nats://bob:hunter2@h:4222', strem = 'S')`,
		"from the environment":          `CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', "Secret"= '${PW}', strem = 'S')`,
		"in letters of several bytes":   `CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', password = 'pä€𝄞hunter2', strem = 'S')`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), Config{LookupEnv: func(string) (string, bool) { return "hunter2", true }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // nothing was started
			err = s.Validate(t.Context(), "x.sql", text)
			if err == nil {
				t.Fatal("the script is not valid")
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a secret:\n%v", err)
			}
			masked, _ := redact(text)
			if len(masked) != len(text) || len([]rune(masked)) != len([]rune(text)) {
				t.Errorf("offsets have moved: %q", masked)
			}
		})
	}
}
