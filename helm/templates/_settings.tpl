{{/*
Settings become environment variables. A file of settings would lose to those that the image sets
(REPLAY_LISTEN), and a sidecar would need a ConfigMap. A change of one is a change of the pod, too.
*/}}

{{/* What the gateway runs with, as YAML: `config`, and where it listens unless that says so. */}}
{{- define "reasoning-replay.gatewayConfig" -}}
{{- $open := dict "listen" "0.0.0.0:8080" "admin_listen" "0.0.0.0:9090" -}}
{{- include "reasoning-replay.over" (list $open .Values.config) -}}
{{- end -}}

{{- define "reasoning-replay.sidecarConfig" -}}
{{- include "reasoning-replay.over" (list .Values.config .Values.sidecar.config) -}}
{{- end -}}

{{/* Mappings, as YAML: later ones win, with a 0 or a false, too, which `merge` takes for nothing. */}}
{{- define "reasoning-replay.over" -}}
{{- $all := dict -}}
{{- range . -}}
{{- range $name, $value := . -}}
{{- $_ := set $all $name $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* One value as the proxy reads it: YAML made a boolean of `on`, and 6.7108864e+07 of 67108864. */}}
{{- define "reasoning-replay.text" -}}
{{- if kindIs "bool" . -}}
{{- ternary "on" "off" . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* The port behind the last colon of host:port. */}}
{{- define "reasoning-replay.port" -}}
{{- splitList ":" . | last -}}
{{- end -}}

{{/* Ports that a URL names for its hosts, with a comma between them. */}}
{{- define "reasoning-replay.portsOf" -}}
{{- $hosts := regexReplaceAll `^[^:]*://([^/?#]*@)?|\[[^]]*\]|[/?#].*$` . "" -}}
{{- regexFindAll ":[0-9]+" $hosts -1 | join "" | trimPrefix ":" | replace ":" "," -}}
{{- end -}}

{{/* Variables of one container: (dict "root" $ "config" mapping "extraEnv" list). */}}
{{- define "reasoning-replay.env" -}}
{{- $root := .root -}}
{{- range $name, $value := .config }}
- name: REPLAY_{{ upper $name }}
  value: {{ include "reasoning-replay.text" $value | quote }}
{{- end }}
{{- range $name, $key := $root.Values.secrets.keys }}
- name: REPLAY_{{ upper $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $root.Values.secrets.existingSecret | quote }}
      key: {{ $key | quote }}
{{- end }}
{{- with $root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
