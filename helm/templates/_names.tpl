{{/* Names and labels. Templates named reasoning-replay.… are also visible to other charts. */}}

{{- define "reasoning-replay.name" -}}
{{- .Values.nameOverride | default "reasoning-replay" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for suffixes such as -admin; without dots, which a release name may have and a Service name may not. */}}
{{- define "reasoning-replay.fullname" -}}
{{- $name := include "reasoning-replay.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "reasoning-replay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "reasoning-replay.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels of the pods that serve; the component is needed because the test's pod has the same name and instance. */}}
{{- define "reasoning-replay.gatewayLabels" -}}
{{ include "reasoning-replay.selectorLabels" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{/*
Metadata of one object: (dict "root" $), and, where the object has them, "name" or the "suffix" of the
common name, "namespace", "labels" and "annotations". What is set twice appears once: the object's own wins.
*/}}
{{- define "reasoning-replay.metadata" -}}
{{- $own := include "reasoning-replay.ownLabels" .root | fromYaml -}}
name: {{ .name | default (print (include "reasoning-replay.fullname" .root) (.suffix | default "")) | quote }}
{{- with .namespace }}
namespace: {{ . | quote }}
{{- end }}
labels:
  {{- include "reasoning-replay.over" (list .root.Values.commonLabels $own .labels) | nindent 2 }}
{{- with include "reasoning-replay.over" (list .root.Values.commonAnnotations .annotations) | fromYaml }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Labels of the pods that serve. The selector's labels win, because they can never change. */}}
{{- define "reasoning-replay.podLabels" -}}
{{- $selected := include "reasoning-replay.gatewayLabels" . | fromYaml -}}
{{- include "reasoning-replay.over" (list .Values.commonLabels .Values.podLabels $selected) -}}
{{- end -}}

{{/* A tag may be longer than a label, and may end in a character that a label may not. */}}
{{- define "reasoning-replay.ownLabels" -}}
{{ include "reasoning-replay.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "reasoning-replay-%s" .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-_." }}
{{- end -}}

{{- define "reasoning-replay.serviceAccountName" -}}
{{- $made := ternary (include "reasoning-replay.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $made -}}
{{- end -}}

{{- define "reasoning-replay.image" -}}
{{- $image := .Values.image -}}
{{- with .Values.global.imageRegistry | default $image.registry -}}
{{- if regexMatch "^[^/]*[.:][^/]*/" $image.repository -}}
{{- fail (printf "image.registry (or global.imageRegistry), image.repository: %s and %s both name a registry; keep one" . $image.repository) -}}
{{- end -}}
{{- printf "%s/" . -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The member `imagePullSecrets` of a pod. Other charts write the global ones as names, or as {name}. */}}
{{- define "reasoning-replay.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (.Values.global.imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with $secrets | uniq -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* The base URL that apps set. */}}
{{- define "reasoning-replay.clientsUrl" -}}
{{- $config := include "reasoning-replay.gatewayConfig" . | fromYaml -}}
{{- $scheme := ternary "http" "https" (empty (get $config "tls_cert_file")) -}}
{{- printf "%s://%s.%s:%v" $scheme (include "reasoning-replay.fullname" .) .Release.Namespace (include "reasoning-replay.text" .Values.service.port) -}}
{{- end -}}

{{/* The endpoint that a ServiceMonitor or a PodMonitor scrapes. */}}
{{- define "reasoning-replay.endpoint" -}}
- port: admin
  path: /metrics
  interval: {{ .interval }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  {{- with .relabelings }}
  relabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
