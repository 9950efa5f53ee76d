{{- define "berth.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "berth.labels" -}}
app.kubernetes.io/part-of: berth
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* The manifests that are applied without Helm too, in this release's namespace. */}}
{{- define "berth.file" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- .root.Files.Get (printf "files/%s" .name)
      | replace "namespace: berth-system" (printf "namespace: %s" $namespace)
      | replace "system:serviceaccount:berth-system:" (printf "system:serviceaccount:%s:" $namespace) -}}
{{- end -}}

{{- define "berth.env" -}}
{{- with .Values.apiServer }}
- {name: BERTH_API_SERVER, value: {{ . | quote }}}
{{- end }}
- {name: BERTH_LOG_FORMAT, value: {{ .Values.logFormat | quote }}}
- {name: BERTH_LOG_LEVEL, value: {{ .Values.logLevel | quote }}}
{{- end -}}
